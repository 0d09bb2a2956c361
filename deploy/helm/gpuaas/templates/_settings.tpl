{{/* What the portal is told: variables, and secrets as files that variables name. */}}

{{/* A list of {variable, file, secret, key}. Ends with a sentence where a secret has no place. */}}
{{- define "gpuaas.secrets" -}}
{{- $v := .Values -}}
{{- $own := include "gpuaas.ownSecret" . -}}
{{- if eq (empty $v.secrets.existingSecret) (not $v.secrets.create) -}}
{{- fail "Name a Secret with the portal's keys in secrets.existingSecret, or set secrets.create to true; one of the two." -}}
{{- end -}}
{{- $keys := ternary $own $v.secrets.existingSecret $v.secrets.create -}}
- {variable: GPUAAS_SECRET_KEY, file: secret-key, secret: {{ $keys }}, key: secret-key}
- {variable: GPUAAS_ENCRYPTION_KEYS, file: encryption-keys, secret: {{ $keys }}, key: encryption-keys}
{{ include "gpuaas.server" (dict "root" $ "name" "database" "trial" "postgresql") }}
{{ include "gpuaas.server" (dict "root" $ "name" "broker" "trial" "redis") }}
{{- if $v.channels.existingSecret }}
- {variable: GPUAAS_CHANNELS_URL, file: channels-url, secret: {{ $v.channels.existingSecret }}, key: {{ $v.channels.key }}}
{{- end }}
{{- if $v.mail.existingSecret }}
- {variable: GPUAAS_MAIL_URL, file: mail-url, secret: {{ $v.mail.existingSecret }}, key: {{ $v.mail.key }}}
{{- end }}
{{- if $v.oidc.issuer }}
{{- $secret := required "Name a Secret with the client's secret in oidc.existingSecret." $v.oidc.existingSecret }}
- {variable: GPUAAS_OIDC_CLIENT_SECRET, file: oidc-client-secret, secret: {{ $secret }}, key: {{ $v.oidc.key }}}
{{- end }}
{{- if $v.metrics.enabled }}
- {variable: GPUAAS_METRICS_TOKEN, file: metrics-token, secret: {{ $v.metrics.existingSecret | default $keys }}, key: {{ $v.metrics.key }}}
{{- end }}
{{- end -}}

{{/* Of the database or the broker. Given a dict: root, name, and trial, the part of the values that brings one along. */}}
{{- define "gpuaas.server" -}}
{{- $v := .root.Values -}}
{{- $bundled := (get $v .trial).enabled -}}
{{- $from := get $v .name -}}
{{- $file := printf "%s-url" .name -}}
{{- $words := printf "Name a Secret with the URL of the %s in %s.existingSecret; for a trial set %s.enabled to true." .name .name .trial -}}
{{- $named := $from.existingSecret | default $v.secrets.existingSecret -}}
{{- $secret := ternary (include "gpuaas.ownSecret" .root) $named $bundled | required $words -}}
- {variable: GPUAAS_{{ upper .name }}_URL, file: {{ $file }}, secret: {{ $secret }}, key: {{ ternary $file $from.key $bundled }}}
{{- end -}}

{{- define "gpuaas.env" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: GPUAAS_ALLOWED_HOSTS # people's, then those of probes and Prometheus
  value: {{ printf "%s,$(POD_IP),%s.%s.svc" (join "," .Values.hosts) (include "gpuaas.name" .) .Release.Namespace | quote }}
- name: GPUAAS_PUBLIC_URL
  value: {{ .Values.publicUrl | default (printf "https://%s" (first .Values.hosts)) | quote }}
{{- with .Values.trustedProxies }}
- name: GPUAAS_TRUSTED_PROXIES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.door.domain }}
- name: GPUAAS_DOOR_DOMAIN
  value: {{ . | quote }}
- name: GPUAAS_DOOR_CERTIFICATE
  value: /run/secrets/door/tls.crt
- name: GPUAAS_DOOR_KEY
  value: /run/secrets/door/tls.key
{{- with $.Values.door.ssh }}
- name: GPUAAS_DOOR_SSH
  value: {{ . | quote }}
{{- end }}
{{- end }}
- name: GPUAAS_BACKUPS_EXPECTED
  value: {{ or .Values.backup.enabled .Values.backup.elsewhere | quote }}
{{- if .Values.metrics.enabled }}
- name: GPUAAS_METRICS_BIND # of all but the web processes
  value: $(POD_IP):9100
{{- end }}
{{- range include "gpuaas.secrets" . | fromYamlArray }}
- name: {{ .variable }}_FILE
  value: /run/secrets/gpuaas/{{ .file }}
{{- end }}
{{- with .Values.oidc }}
{{- if .issuer }}
- name: GPUAAS_OIDC_ISSUER
  value: {{ .issuer | quote }}
- name: GPUAAS_OIDC_NAME
  value: {{ .name | quote }}
- name: GPUAAS_OIDC_CLIENT_ID
  value: {{ required "Set oidc.clientId." .clientId | quote }}
- name: GPUAAS_OIDC_SIGNUP
  value: {{ .signup | quote }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ ternary (int64 $value) $value (kindIs "float64" $value) | quote }} # 31536000 would be 3.1536e+07
{{- end }}
{{- end -}}

{{- define "gpuaas.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range include "gpuaas.secrets" . | fromYamlArray }}
      - secret: {name: {{ .secret }}, items: [{key: {{ .key }}, path: {{ .file }}}]}
      {{- end }}
{{- end -}}
