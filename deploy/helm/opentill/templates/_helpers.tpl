{{/* Parts of every pod. Their argument is a dictionary with `top` and `part`. */}}
{{- define "opentill.labels" -}}
app.kubernetes.io/name: opentill
app.kubernetes.io/instance: {{ .top.Release.Name }}
app.kubernetes.io/component: {{ .part }}
app.kubernetes.io/version: {{ .top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .top.Release.Service }}
{{- end }}

{{- define "opentill.selector" -}}
app.kubernetes.io/name: opentill
app.kubernetes.io/instance: {{ .top.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "opentill.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
volumes:
  - name: tmp
    emptyDir:
      sizeLimit: 1Gi
  - name: secrets
    secret:
      secretName: {{ .top.Values.secretName }}
      defaultMode: 0440
{{- end }}

{{- define "opentill.container" -}}
image: "{{ .top.Values.image.repository }}:{{ .top.Values.image.tag | default .top.Chart.AppVersion }}"
imagePullPolicy: {{ .top.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: tmp
    mountPath: /tmp
  - name: secrets
    mountPath: /run/secrets/opentill
    readOnly: true
env:
{{- range $name, $value := .top.Values.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
{{- end }}
{{- if ne .part "migrate" }}
  - name: OPENTILL_METRICS_HOST
    value: 0.0.0.0
  - name: OPENTILL_METRICS_PORT
    value: "9090"
{{- end }}
{{- range $name, $value := .top.Values.tracing }}
  - name: {{ $name }}
    value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "opentill.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "opentill.selector" . | nindent 8 }}
{{- end }}
