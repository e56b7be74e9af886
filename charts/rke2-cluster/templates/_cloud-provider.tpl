{{/*
What the chosen cloud provider adds to the Cluster: config (RKE2 configuration
of every node), controlPlaneConfig (that of control-plane nodes only),
chartValues and additionalManifest. Empty without a cloud provider.
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
{{- with .Values.cloudProvider.aws }}
config:
  cloud-provider-name: external
  # AWS's controller finds an instance by the node's name.
  node-name-from-cloud-provider-metadata: true
controlPlaneConfig:
  disable-cloud-controller: true
additionalManifest: |
  apiVersion: helm.cattle.io/v1
  kind: HelmChart
  metadata:
    name: aws-cloud-controller-manager
    namespace: kube-system
  spec:
    chart: aws-cloud-controller-manager
    repo: {{ .repository | quote }}
    version: {{ .version | quote }}
    targetNamespace: kube-system
    # It runs before the nodes are ready: they wait for it.
    bootstrap: true
    valuesContent: |
      hostNetworking: true
      nodeSelector:
        node-role.kubernetes.io/control-plane: "true"
      tolerations:
      - operator: Exists
      args:
      - --cloud-provider=aws
      - --configure-cloud-routes=false
      - --v=2
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
