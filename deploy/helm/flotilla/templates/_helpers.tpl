{{/* The prefix of all object names. */}}
{{- define "flotilla.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Selector labels of pods. Arguments: component and root. */}}
{{- define "flotilla.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* Labels of a pod; they do not depend on the chart's version. */}}
{{- define "flotilla.podLabels" -}}
{{ include "flotilla.selector" . }}
app.kubernetes.io/part-of: flotilla
{{- end }}

{{/* Labels of an object. Arguments: component, which may be empty, and root. */}}
{{- define "flotilla.labels" -}}
{{ include "flotilla.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* The schedulerName of the profile. */}}
{{- define "flotilla.schedulerName" -}}
{{- if .Values.defaultScheduler.enabled }}default-scheduler{{ else }}{{ .Values.scheduler.name }}{{ end }}
{{- end }}

{{/* The Lease: its namespace and its name. */}}
{{- define "flotilla.lease" -}}
{{- if .Values.defaultScheduler.enabled -}}
namespace: kube-system
name: kube-scheduler
{{- else -}}
namespace: {{ .Release.Namespace }}
name: {{ include "flotilla.fullname" . }}
{{- end -}}
{{- end }}

{{/* The KubeSchedulerConfiguration, merged with `configuration`. */}}
{{- define "flotilla.configuration" -}}
{{- $lease := include "flotilla.lease" . | fromYaml }}
{{- $profile := dict "schedulerName" (include "flotilla.schedulerName" .) }}
{{- $set := dict }}
{{- range $key, $names := .Values.plugins }}
{{- if $names }}
{{- $listed := list }}
{{- range $names }}{{ $listed = append $listed (dict "name" .) }}{{ end }}
{{- $_ := set $set $key $listed }}
{{- end }}
{{- end }}
{{- if $set }}{{ $_ := set $profile "plugins" (dict "multiPoint" $set) }}{{ end }}
{{- with .Values.pluginConfig }}{{ $_ := set $profile "pluginConfig" . }}{{ end }}
{{- $election := dict "leaderElect" .Values.scheduler.leaderElect "resourceName" $lease.name "resourceNamespace" $lease.namespace }}
{{- $own := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $election "profiles" (list $profile) }}
{{- mergeOverwrite $own (deepCopy .Values.configuration) | toYaml }}
{{- end }}

{{/* Tracing flags of both programs. */}}
{{- define "flotilla.tracing" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
- --tracing-endpoint={{ .endpoint }}
{{- if ne (float64 .samplingRatio) 1.0 }}
- --tracing-sampling-ratio={{ .samplingRatio }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The port of the tracing endpoint. */}}
{{- define "flotilla.tracingPort" -}}
{{- $port := regexFind ":[0-9]+" (regexReplaceAll "^https?://(\\[[^]]*\\])?" .Values.tracing.endpoint "") | trimPrefix ":" }}
{{- if $port }}{{ $port }}{{ else if hasPrefix "https://" .Values.tracing.endpoint }}443{{ else }}80{{ end }}
{{- end }}

{{/* The security context of both pods, and of both containers. */}}
{{- define "flotilla.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- define "flotilla.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end }}
