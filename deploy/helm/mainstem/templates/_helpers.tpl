{{- define "mainstem.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "mainstem.selector" -}}
app.kubernetes.io/name: mainstem
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "mainstem.labels" -}}
{{ include "mainstem.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "mainstem.image" -}}
{{- $tag := .Values.image.tag | default (printf "%s%s" .Chart.AppVersion (ternary "-all" "" (ne .Values.app.configMapName ""))) -}}
{{ .Values.image.repository }}:{{ $tag }}
{{- end -}}

{{- define "mainstem.kafkaPort" -}}
{{ ternary 9092 9093 .Values.insecure }}
{{- end -}}

{{- define "mainstem.advertisedHost" -}}
{{ .Values.advertisedHost | default (printf "%s.%s.svc.cluster.local" (include "mainstem.name" .) .Release.Namespace) }}
{{- end -}}

{{- define "mainstem.tokensSecret" -}}
{{ .Values.http.tokensSecretName | default (printf "%s-tokens" (include "mainstem.name" .)) }}
{{- end -}}

{{/* What cannot be served is refused here, with what to do. */}}
{{- define "mainstem.validate" -}}
{{- if ne (int .Values.replicaCount) 1 -}}
{{- fail (printf "replicaCount is %d: Mainstem is one node and does not replicate, and two logs are not one log; use replicaCount=1" (int .Values.replicaCount)) -}}
{{- end -}}
{{- $hasTokens := or .Values.http.tokens .Values.http.tokensSecretName -}}
{{- if and .Values.insecure (or .Values.tls.secretName .Values.admin.secretName $hasTokens) -}}
{{- fail "insecure=true serves without TLS, users and tokens: remove tls.secretName, admin.secretName and http.tokens, or insecure" -}}
{{- end -}}
{{- if and .Values.insecure .Values.app.configMapName -}}
{{- fail "an App is served with TLS and users only: set tls.secretName, admin.secretName and http.tokens, and remove insecure" -}}
{{- end -}}
{{- if and (not .Values.insecure) (not (and .Values.tls.secretName .Values.admin.secretName $hasTokens)) -}}
{{- fail "tls.secretName, admin.secretName and http.tokens (or http.tokensSecretName) are needed to listen beyond the pod; insecure=true insists without them" -}}
{{- end -}}
{{- end -}}
