{{/*
What the chosen cloud provider adds to the Cluster: config (RKE2 configuration
of every node) and chartValues. Empty without a cloud provider.
*/}}
{{- define "rke2-cluster.cloudProvider" -}}
{{- $cluster := .Values.cluster.name -}}
{{- with .Values.cloudProvider.harvester }}
config:
  cloud-provider-name: harvester
  cloud-provider-config: secret://{{ $.Release.Namespace }}:{{ $cluster }}-cloud-config
chartValues:
  harvester-cloud-provider:
    # Where Rancher puts the content of cloud-provider-config on a node.
    cloudConfigPath: /var/lib/rancher/rke2/etc/config-files/cloud-provider-config
    global:
      cattle:
        clusterName: {{ $cluster | quote }}
{{- end }}
{{- with .Values.cloudProvider.vsphere }}
config:
  cloud-provider-name: rancher-vsphere
chartValues:
  rancher-vsphere-cpi:
    vCenter:
      host: {{ .host | quote }}
      port: {{ .port | default 443 | toJson }}
      insecureFlag: {{ .insecureFlag | default false }}
      datacenters: {{ join "," .datacenters | toJson }}
      credentialsSecret:
        name: rancher-vsphere-cpi-credentials
        generate: false
  rancher-vsphere-csi:
    vCenter:
      configSecret:
        name: rancher-vsphere-csi-credentials
        generate: false
    {{- with .storageClass }}
    storageClass:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- end -}}

{{/*
Annotations with which Rancher copies a Secret into kube-system of the new
cluster before its cloud provider starts. Call with {cluster, target}.
*/}}
{{- define "rke2-cluster.syncAnnotations" -}}
rke.cattle.io/object-authorized-for-clusters: {{ .cluster | quote }}
provisioning.cattle.io/sync-bootstrap: "true"
provisioning.cattle.io/sync-target-namespace: kube-system
provisioning.cattle.io/sync-target-name: {{ .target }}
{{- end -}}

{{/*
A string of the vSphere CSI driver's configuration file, quoted.
*/}}
{{- define "rke2-cluster.vsphereConfString" -}}
"{{ . | replace "\\" "\\\\" | replace "\"" "\\\"" }}"
{{- end -}}
