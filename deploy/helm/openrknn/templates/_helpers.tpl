{{/* The beginning of all names: the release's name, with the chart's in it. */}}
{{- define "openrknn.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What selects pods; never changes. Call: dict "root" $ "part" "device-plugin". */}}
{{- define "openrknn.selector" -}}
app.kubernetes.io/name: openrknn-{{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{/* The labels of an object. Call: dict "root" $ "part" "device-plugin". */}}
{{- define "openrknn.labels" -}}
{{ include "openrknn.selector" . }}
app.kubernetes.io/component: {{ .part }}
app.kubernetes.io/part-of: openrknn
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The image, in one place. */}}
{{- define "openrknn.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The plugin's account. */}}
{{- define "openrknn.account" -}}
{{- default (printf "%s-device-plugin" (include "openrknn.fullname" .)) .Values.devicePlugin.serviceAccount.name -}}
{{- end -}}

{{/* "true" if settings differ from node to node. */}}
{{- define "openrknn.hasConfig" -}}
{{- if or .Values.devicePlugin.config .Values.devicePlugin.configMap -}}true{{- end -}}
{{- end -}}

{{/* "true" if the plugin asks the API server: as a DRA driver, or for the labels of its node. */}}
{{- define "openrknn.asksServer" -}}
{{- if or .Values.dra.enabled (include "openrknn.hasConfig" .) -}}true{{- end -}}
{{- end -}}

{{/* The Secret with the token. */}}
{{- define "openrknn.tokenSecret" -}}
{{- default (printf "%s-token" (include "openrknn.fullname" .)) .Values.serve.token.existingSecret -}}
{{- end -}}

{{/* The Secret with the certificate. */}}
{{- define "openrknn.tlsSecret" -}}
{{- default (printf "%s-tls" (include "openrknn.fullname" .)) .Values.serve.tls.existingSecret -}}
{{- end -}}

{{/* The names that the server's certificate is for, as a YAML list. */}}
{{- define "openrknn.hosts" -}}
{{- $name := include "openrknn.fullname" . -}}
{{- range $service := list $name (printf "%s-grpc" $name) }}
- {{ $service }}
- {{ printf "%s.%s" $service $.Release.Namespace }}
- {{ printf "%s.%s.svc" $service $.Release.Namespace }}
- {{ printf "%s.%s.svc.cluster.local" $service $.Release.Namespace }}
{{- end }}
- localhost
{{- range .Values.serve.tls.hosts }}
- {{ . | quote }}
{{- end }}
{{- end -}}
