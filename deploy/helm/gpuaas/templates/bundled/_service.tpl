{{/* What the portal's pods, and nobody else, reach a bundled server by. Given a dict with root, component, port. */}}
{{- define "gpuaas.bundledService" -}}
{{- $name := printf "%s-%s" (include "gpuaas.name" .root) .component -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels:
    {{- include "gpuaas.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "gpuaas.selector" . | nindent 4 }}
  ports:
    - {name: {{ .component }}, port: {{ .port }}, targetPort: {{ .component }}}
---
{{ include "gpuaas.budget" . }}
{{- if .root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  labels:
    {{- include "gpuaas.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "gpuaas.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
    - ports: [{protocol: TCP, port: {{ .port }}}]
      from:
        - podSelector:
            matchLabels:
              app.kubernetes.io/name: {{ .root.Chart.Name }}
              app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}
{{- end -}}
