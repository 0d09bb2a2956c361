{{/* The pod of one process of the portal. Given a dict:
  root, component, args (of gpuaas-portal), own (its part of the values); http: whether it answers on port 8000; tls: the Secret of the
  certificate with which it answers on port 8443. */}}
{{- define "gpuaas.process" -}}
{{- $v := .root.Values -}}
metadata:
  {{- with $v.podAnnotations }}
  annotations: {{ toJson . }}
  {{- end }}
  labels:
    {{- include "gpuaas.labels" . | nindent 4 }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "gpuaas.podBasics" . | nindent 2 }}
  terminationGracePeriodSeconds: {{ .own.graceSeconds }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "gpuaas.selector" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- if include "gpuaas.migratesBeside" .root }}
  initContainers: # it begins with the tables of its release, which a job makes at the same time
    - name: tables
      args: [migrate, --check]
      resources: {{ toJson .own.resources }}
      {{- include "gpuaas.container" .root | nindent 6 }}
  {{- end }}
  containers:
    - name: {{ .component }}
      args: {{ toJson .args }}
      resources: {{ toJson .own.resources }}
      {{- if .http }}
      ports:
        - {name: http, containerPort: 8000}
      startupProbe:
        httpGet: {path: /health/live, port: http, httpHeaders: [{name: Host, value: {{ first $v.hosts }}}]}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /health/live, port: http, httpHeaders: [{name: Host, value: {{ first $v.hosts }}}]}
        periodSeconds: 10
        timeoutSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /health/ready, port: http, httpHeaders: [{name: Host, value: {{ first $v.hosts }}}]}
        periodSeconds: 5
        timeoutSeconds: 5
      lifecycle: # the Service sends requests for a moment after the end has begun
        preStop: {sleep: {seconds: {{ .own.drainSeconds }}}}
      {{- else }}
      {{- if or $v.metrics.enabled .tls }}
      ports:
        {{- if $v.metrics.enabled }}
        - {name: metrics, containerPort: 9100}
        {{- end }}
        {{- if .tls }}
        - {name: door, containerPort: 8443}
        {{- if $v.door.ssh }}
        - {name: ssh, containerPort: 2222}
        {{- end }}
        {{- end }}
      {{- end }}
      startupProbe:
        exec: {command: {{ include "gpuaas.alive" 300 }}}
        periodSeconds: 5
        timeoutSeconds: 10
        failureThreshold: 60
      livenessProbe: # no database that is away for minutes makes it start again
        exec: {command: {{ include "gpuaas.alive" 300 }}}
        periodSeconds: 60
        timeoutSeconds: 10
      {{- end }}
      {{- include "gpuaas.container" .root | nindent 6 }}
        {{- if .tls }}
        - {name: door, mountPath: /run/secrets/door, readOnly: true}
        {{- end }}
  volumes:
    {{- include "gpuaas.volumes" .root | nindent 4 }}
    {{- with .tls }}
    - {name: door, secret: {secretName: {{ . }}, defaultMode: 0440}}
    {{- end }}
{{- end -}}

{{/* A command that succeeds if the heartbeat has touched its file within so many seconds. */}}
{{- define "gpuaas.alive" -}}
["python3", "-I", "-S", "-c", "import os, sys, time; sys.exit(time.time() - os.stat('/tmp/alive').st_mtime > {{ . }})"]
{{- end -}}

{{/* Given the dict of a process; early: whether it may run before the chart has made its ServiceAccount. */}}
{{- define "gpuaas.podBasics" -}}
{{- $v := .root.Values -}}
serviceAccountName: {{ ternary "default" (include "gpuaas.serviceAccount" .root) (and (not (empty .early)) $v.serviceAccount.create) }}
automountServiceAccountToken: false
enableServiceLinks: false
{{ include "gpuaas.podSecurity" 10001 }}
{{- with $v.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $v.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $v.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $v.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Given the id of the user. */}}
{{- define "gpuaas.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ int64 . }}
  runAsGroup: {{ int64 . }}
  fsGroup: {{ int64 . }}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "gpuaas.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "gpuaas.container" -}}
image: {{ include "gpuaas.image" (dict "image" .Values.image "default" .Chart.AppVersion) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{ include "gpuaas.containerSecurity" . }}
env:
  - name: GPUAAS_ALIVE_FILE
    value: /tmp/alive
  {{- include "gpuaas.env" . | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: secrets, mountPath: /run/secrets/gpuaas, readOnly: true}
{{- end -}}

{{/* Whether the first migration runs beside the other processes, since before them there is no database or no key. */}}
{{- define "gpuaas.migratesBeside" -}}
{{- if or .Values.secrets.create .Values.postgresql.enabled -}}yes{{- end -}}
{{- end -}}

{{/* A budget that lets nodes be drained. Given a dict with root and component. */}}
{{- define "gpuaas.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "gpuaas.name" .root }}-{{ .component }}
  labels:
    {{- include "gpuaas.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "gpuaas.selector" . | nindent 6 }}
{{- end -}}
