package charts

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// objects are the rendered documents, decoded strictly by kind.
type objects struct {
	Clusters  []cluster
	Harvester []harvesterConfig
	Vsphere   []vmwarevsphereConfig
	AWS       []amazonec2Config
	Secrets   []secret
	Documents []document // as rendered, in the order of file names
}

type document struct {
	Kind string
	Text string
}

func mustLoad(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := RKE2Cluster()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readValues(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))
}

// parse decodes YAML the way provider-helm does: every number becomes a float64.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// change returns the named values with YAML text merged over them.
func change(t *testing.T, name, text string) map[string]any {
	t.Helper()
	return chartutil.CoalesceTables(parse(t, text), readValues(t, name))
}

func renderFiles(t *testing.T, values map[string]any, namespace string) (map[string]string, error) {
	t.Helper()
	c := mustLoad(t)
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "release", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

func render(t *testing.T, values map[string]any) objects {
	t.Helper()
	files, err := renderFiles(t, values, "fleet-default")
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)

	var got objects
	for _, name := range names {
		for text := range strings.SplitSeq("\n"+files[name], "\n---") {
			if strings.TrimSpace(text) == "" {
				continue
			}
			var object TypeMeta
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			switch object.Kind {
			case "Cluster":
				got.Clusters = append(got.Clusters, decode[cluster](t, text))
			case "HarvesterConfig":
				got.Harvester = append(got.Harvester, decode[harvesterConfig](t, text))
			case "VmwarevsphereConfig":
				got.Vsphere = append(got.Vsphere, decode[vmwarevsphereConfig](t, text))
			case "Amazonec2Config":
				got.AWS = append(got.AWS, decode[amazonec2Config](t, text))
			case "Secret":
				got.Secrets = append(got.Secrets, decode[secret](t, text))
			default:
				t.Fatalf("%s: unexpected kind %q", name, object.Kind)
			}
			got.Documents = append(got.Documents, document{Kind: object.Kind, Text: text})
		}
	}
	return got
}

func decode[T any](t *testing.T, document string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
		t.Fatalf("cannot decode strictly: %v\n%s", err, document)
	}
	return object
}

func meta(apiVersion, kind, name string) TypeMeta {
	return TypeMeta{APIVersion: apiVersion, Kind: kind, Metadata: objectMeta{Name: name, Namespace: "fleet-default"}}
}

func harvesterMeta(name string) TypeMeta {
	return meta("rke-machine-config.cattle.io/v1", "HarvesterConfig", name)
}

func vsphereMeta(name string) TypeMeta {
	return meta("rke-machine-config.cattle.io/v1", "VmwarevsphereConfig", name)
}

func secretMeta(name string, annotations map[string]string) TypeMeta {
	m := meta("v1", "Secret", name)
	m.Metadata.Annotations = annotations
	return m
}

// equal compares the Cluster and the machine configs as whole objects; the
// Secrets have tests of their own.
func equal(t *testing.T, want, got objects) {
	t.Helper()
	got.Secrets, got.Documents = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rendered objects: -want, +got:\n%s", diff)
	}
}

const (
	diskInfo    = `{"disks":[{"imageName":"rig-prod/image-abcde","size":40,"bootOrder":1}]}`
	networkInfo = `{"interfaces":[{"networkName":"rig-prod/vlan10"}]}`
)

func TestHarvesterSmall(t *testing.T) {
	const config = "payments-dev-x7k2p-all-967e38d2"
	equal(t, objects{
		Clusters: []cluster{{
			TypeMeta: meta("provisioning.cattle.io/v1", "Cluster", "payments-dev-x7k2p"),
			Spec: clusterSpec{
				KubernetesVersion:        "v1.31.7+rke2r1",
				EnableNetworkPolicy:      new(false),
				LocalClusterAuthEndpoint: &localAuthEndpoint{Enabled: new(false)},
				RKEConfig: rkeConfig{
					MachineGlobalConfig: map[string]any{"cni": "canal"},
					MachineSelectorConfig: []selectorEntry{{Config: map[string]any{
						"cloud-provider-name":   "harvester",
						"cloud-provider-config": "secret://fleet-default:payments-dev-x7k2p-cloud-config",
					}}},
					ChartValues: map[string]any{"harvester-cloud-provider": map[string]any{
						"cloudConfigPath": "/var/lib/rancher/rke2/etc/config-files/cloud-provider-config",
						"global":          map[string]any{"cattle": map[string]any{"clusterName": "payments-dev-x7k2p"}},
					}},
					UpgradeStrategy: upgradeStrategy{ControlPlaneConcurrency: new("1"), WorkerConcurrency: new("1")},
					ETCD:            etcd{DisableSnapshots: new(false), SnapshotScheduleCron: new("0 */5 * * *"), SnapshotRetention: new(5)},
					MachinePools: []machinePool{{
						Name: "all", Quantity: new(int32(1)),
						EtcdRole: new(true), ControlPlaneRole: new(true), WorkerRole: new(true),
						MachineConfigRef:  machineConfigRef{Kind: "HarvesterConfig", Name: config},
						RollingUpdate:     &rollingUpdate{MaxSurge: 1.0, MaxUnavailable: 0.0},
						DrainBeforeDelete: new(true),
					}},
				},
			},
		}},
		Harvester: []harvesterConfig{{
			TypeMeta:    harvesterMeta(config),
			VMNamespace: "rig-prod", CPUCount: "4", MemorySize: "8", DiskInfo: diskInfo, NetworkInfo: networkInfo,
		}},
	}, render(t, readValues(t, "harvester-small")))
}

func TestHarvesterFull(t *testing.T) {
	configs := []string{"shop-control-plane-28b41246", "shop-gpu-5cd269d5", "shop-workers-64f4c445"}
	clusterMeta := meta("provisioning.cattle.io/v1", "Cluster", "shop")
	clusterMeta.Metadata.Labels = map[string]string{"rig-gateway.io/cluster": "shop"}
	clusterMeta.Metadata.Annotations = map[string]string{"field.cattle.io/no-creator-rbac": "true", "rig-gateway.io/claim": "team-a/shop"}

	// pool carries what poolDefaults give to every pool of this case.
	pool := func(p machinePool) machinePool {
		p.DrainBeforeDeleteTimeout = new("10m")
		p.NodeStartupTimeout = new("1h30m")
		p.MaxUnhealthy = new("40%")
		p.UnhealthyRange = new("[1-2]")
		p.HostnameLengthLimit = new(40)
		return p
	}
	selector := selectorEntry{Config: map[string]any{"kubelet-arg": []any{"max-pods=250"}}}
	selector.MachineLabelSelector = &struct {
		MatchLabels map[string]string `json:"matchLabels,omitempty"`
	}{MatchLabels: map[string]string{"rke.cattle.io/worker-role": "true"}}

	want := objects{
		Clusters: []cluster{{
			TypeMeta: clusterMeta,
			Spec: clusterSpec{
				KubernetesVersion:         "v1.32.4-rc1+rke2r2",
				CloudCredentialSecretName: new("cattle-global-data:cc-abcde"),
				EnableNetworkPolicy:       new(true),
				DefaultPodSecurityAdmissionConfigurationTemplateName: new("rancher-restricted"),
				LocalClusterAuthEndpoint:                             &localAuthEndpoint{Enabled: new(true), FQDN: new("api.shop.example.org"), CACerts: new("-----BEGIN CERTIFICATE-----\nca\n")},
				AgentEnvVars:                                         []envVar{{Name: "HTTPS_PROXY", Value: "http://proxy.example.org:3128"}},
				RKEConfig: rkeConfig{
					MachineGlobalConfig: map[string]any{
						"cni": "cilium", "tls-san": []any{"api.shop.example.org"},
						"etcd-snapshot-retention": 100000000.0, "disable": []any{},
					},
					MachineSelectorConfig: []selectorEntry{
						{Config: map[string]any{
							"cloud-provider-name":   "harvester",
							"cloud-provider-config": "secret://fleet-default:shop-cloud-config",
						}},
						selector,
					},
					ChartValues: map[string]any{
						"harvester-cloud-provider": map[string]any{
							"cloudConfigPath": "/etc/own", "replicas": 0.0,
							"global": map[string]any{"cattle": map[string]any{"clusterName": "shop"}},
						},
						"rke2-cilium": map[string]any{"ipv6": map[string]any{"enabled": false}, "tolerations": []any{}},
					},
					AdditionalManifest: new("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: extra\n\n---\n  # indented: {{ not a template }}\n"),
					Registries: &registries{
						Mirrors: map[string]mirror{
							"*":                    {},
							"registry.example.org": {Endpoint: []string{"https://mirror.example.org"}, Rewrite: map[string]string{"^(.*)$": "proxy/$1"}},
						},
						Configs: map[string]registryConfig{"mirror.example.org": {
							AuthConfigSecretName: new("mirror-auth"), TLSSecretName: new("mirror-tls"),
							CABundle: []byte("ca-pem"), InsecureSkipVerify: new(false),
						}},
					},
					UpgradeStrategy: upgradeStrategy{
						ControlPlaneConcurrency: new("1"), WorkerConcurrency: new("10%"),
						WorkerDrainOptions: &drainOptions{
							Enabled: new(true), Force: new(false), IgnoreDaemonSets: new(true), DeleteEmptyDirData: new(true),
							GracePeriod: new(-1), Timeout: new(600),
						},
					},
					ETCD: etcd{
						DisableSnapshots: new(false), SnapshotScheduleCron: new("0 */5 * * *"), SnapshotRetention: new(9),
						S3: &etcdS3{
							Bucket: new("snapshots"), Region: new("eu-1"), Endpoint: new("s3.example.org"), Folder: new("shop"),
							Retention: new(12), CloudCredentialName: new("cattle-global-data:cc-s3"),
						},
					},
					MachinePools: []machinePool{
						pool(machinePool{
							Name: "control-plane", Quantity: new(int32(3)), EtcdRole: new(true), ControlPlaneRole: new(true),
							MachineConfigRef:  machineConfigRef{Kind: "HarvesterConfig", Name: configs[0]},
							Taints:            []taint{{Key: "node-role.kubernetes.io/etcd", Effect: "NoExecute"}},
							RollingUpdate:     &rollingUpdate{MaxSurge: 0.0, MaxUnavailable: 1.0},
							DrainBeforeDelete: new(true), UnhealthyNodeTimeout: new("15m"),
						}),
						pool(machinePool{
							Name: "gpu", Quantity: new(int32(0)), WorkerRole: new(true),
							MachineConfigRef:  machineConfigRef{Kind: "HarvesterConfig", Name: configs[1]},
							Labels:            map[string]string{"accelerator": "true"},
							Taints:            []taint{{Key: "dedicated", Value: new("gpu"), Effect: "NoSchedule"}},
							RollingUpdate:     &rollingUpdate{MaxSurge: 1.0, MaxUnavailable: 0.0},
							DrainBeforeDelete: new(false), UnhealthyNodeTimeout: new("30m"),
						}),
						pool(machinePool{
							Name: "workers", Quantity: new(int32(100000000)), WorkerRole: new(true),
							MachineConfigRef:  machineConfigRef{Kind: "HarvesterConfig", Name: configs[2]},
							RollingUpdate:     &rollingUpdate{MaxSurge: "25%", MaxUnavailable: "10%"},
							DrainBeforeDelete: new(true), UnhealthyNodeTimeout: new("15m"),
						}),
					},
				},
			},
		}},
	}
	for _, name := range configs {
		want.Harvester = append(want.Harvester, harvesterConfig{
			TypeMeta:    harvesterMeta(name),
			VMNamespace: "rig-prod", CPUCount: "4", MemorySize: "16", ReservedMemorySize: new("-1"),
			DiskInfo: diskInfo, NetworkInfo: networkInfo, SSHUser: new("ubuntu"), EnableEFI: new(false),
			UserData: new("#cloud-config\npackages: [qemu-guest-agent]\n\nruncmd:\n- [systemctl, enable, --now, \"qemu-guest-agent\"]\n"),
		})
	}
	equal(t, want, render(t, readValues(t, "harvester-full")))
}

func TestVsphere(t *testing.T) {
	configs := []string{"billing-control-plane-9ef8ddb5", "billing-workers-7b9d370e"}
	pool := func(p machinePool, config string) machinePool {
		p.MachineConfigRef = machineConfigRef{Kind: "VmwarevsphereConfig", Name: config}
		p.RollingUpdate = &rollingUpdate{MaxSurge: 2.0, MaxUnavailable: 0.0}
		p.DrainBeforeDelete = new(true)
		return p
	}
	want := objects{
		Clusters: []cluster{{
			TypeMeta: meta("provisioning.cattle.io/v1", "Cluster", "billing"),
			Spec: clusterSpec{
				KubernetesVersion:         "v1.31.7+rke2r1",
				CloudCredentialSecretName: new("cattle-global-data:cc-vsphere"),
				EnableNetworkPolicy:       new(false),
				LocalClusterAuthEndpoint:  &localAuthEndpoint{Enabled: new(false)},
				RKEConfig: rkeConfig{
					MachineGlobalConfig:   map[string]any{"cni": "canal"},
					MachineSelectorConfig: []selectorEntry{{Config: map[string]any{"cloud-provider-name": "rancher-vsphere"}}},
					ChartValues: map[string]any{
						"rancher-vsphere-cpi": map[string]any{"vCenter": map[string]any{
							"host": "vcenter.example.org", "port": 443.0, "insecureFlag": false, "datacenters": "dc1,dc 2",
							"credentialsSecret": map[string]any{"name": "rancher-vsphere-cpi-credentials", "generate": false},
						}},
						"rancher-vsphere-csi": map[string]any{
							"vCenter": map[string]any{
								"configSecret": map[string]any{"name": "rancher-vsphere-csi-credentials", "generate": false},
							},
							"storageClass": map[string]any{"name": "fast", "isDefault": false, "storagePolicyName": "gold"},
						},
					},
					UpgradeStrategy: upgradeStrategy{ControlPlaneConcurrency: new("1"), WorkerConcurrency: new("1")},
					ETCD:            etcd{DisableSnapshots: new(false), SnapshotScheduleCron: new("0 */5 * * *"), SnapshotRetention: new(5)},
					MachinePools: []machinePool{
						pool(machinePool{Name: "control-plane", Quantity: new(int32(3)), EtcdRole: new(true), ControlPlaneRole: new(true)}, configs[0]),
						pool(machinePool{Name: "workers", Quantity: new(int32(2)), WorkerRole: new(true)}, configs[1]),
					},
				},
			},
		}},
	}
	for _, name := range configs {
		want.Vsphere = append(want.Vsphere, vmwarevsphereConfig{
			TypeMeta: vsphereMeta(name),
			VCenter:  new("vcenter.example.org"), Datacenter: new("/dc1"), Datastore: new("/dc1/datastore/ds1"),
			Folder: new("/dc1/vm/rig"), Pool: new("/dc1/host/c1/Resources/rig"),
			Network:  []string{"/dc1/network/vlan10", "/dc1/network/vlan20"},
			CPUCount: "4", MemorySize: "16384", DiskSize: "40960",
			CreationType: new("template"), CloneFrom: new("/dc1/vm/ubuntu"),
			CloudConfig: new("#cloud-config\npackage_update: true\n"), CfgParam: []string{"disk.enableUUID=TRUE"},
		})
	}
	equal(t, want, render(t, readValues(t, "vsphere")))
}

func TestAWS(t *testing.T) {
	configs := []string{"search-all-a-95551b82", "search-all-b-5e7d2040"}
	controlPlane := selectorEntry{Config: map[string]any{"disable-cloud-controller": true}}
	controlPlane.MachineLabelSelector = &struct {
		MatchLabels map[string]string `json:"matchLabels,omitempty"`
	}{MatchLabels: map[string]string{"rke.cattle.io/control-plane-role": "true"}}
	pool := func(name, config string, quantity int32) machinePool {
		return machinePool{
			Name: name, Quantity: new(quantity), EtcdRole: new(true), ControlPlaneRole: new(true), WorkerRole: new(true),
			MachineConfigRef:  machineConfigRef{Kind: "Amazonec2Config", Name: config},
			RollingUpdate:     &rollingUpdate{MaxSurge: 1.0, MaxUnavailable: 0.0},
			DrainBeforeDelete: new(true),
		}
	}
	want := objects{
		Clusters: []cluster{{
			TypeMeta: meta("provisioning.cattle.io/v1", "Cluster", "search"),
			Spec: clusterSpec{
				KubernetesVersion:         "v1.31.7+rke2r1",
				CloudCredentialSecretName: new("cattle-global-data:cc-aws"),
				EnableNetworkPolicy:       new(false),
				LocalClusterAuthEndpoint:  &localAuthEndpoint{Enabled: new(false)},
				RKEConfig: rkeConfig{
					MachineGlobalConfig: map[string]any{"cni": "canal"},
					MachineSelectorConfig: []selectorEntry{
						{Config: map[string]any{"cloud-provider-name": "external", "node-name-from-cloud-provider-metadata": true}},
						controlPlane,
						{Config: map[string]any{"profile": "cis"}},
					},
					AdditionalManifest: new(`apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata:
  name: aws-cloud-controller-manager
  namespace: kube-system
spec:
  chart: aws-cloud-controller-manager
  repo: "https://charts.example.org/aws"
  version: "0.0.8"
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
---
apiVersion: v1
kind: Namespace
metadata:
  name: extra
`),
					UpgradeStrategy: upgradeStrategy{ControlPlaneConcurrency: new("1"), WorkerConcurrency: new("1")},
					ETCD:            etcd{DisableSnapshots: new(false), SnapshotScheduleCron: new("0 */5 * * *"), SnapshotRetention: new(5)},
					MachinePools:    []machinePool{pool("all-a", configs[0], 2), pool("all-b", configs[1], 1)},
				},
			},
		}},
	}
	for i, zone := range []string{"a", "b"} {
		want.AWS = append(want.AWS, amazonec2Config{
			TypeMeta: meta("rke-machine-config.cattle.io/v1", "Amazonec2Config", configs[i]),
			Region:   "eu-central-1", Zone: zone, VPCID: "vpc-0a1b", SubnetID: new("subnet-0" + zone), AMI: "ami-0c2d",
			InstanceType: "m6i.xlarge", RootSize: "100", VolumeType: new("gp3"), EncryptEBSVolume: new(true),
			SecurityGroup: []string{"rig-search"}, SecurityGroupReadonly: new(true), IAMInstanceProfile: new("search-controlplane"),
			SSHUser: new("ubuntu"), Tags: new("kubernetes.io/cluster/search,owned"), UserData: new("#cloud-config\ntimezone: UTC\n"),
			PrivateAddressOnly: new(true), HTTPTokens: new("required"),
		})
	}
	equal(t, want, render(t, readValues(t, "aws")))
}

func TestWithoutCloudProvider(t *testing.T) {
	values := readValues(t, "harvester-small")
	delete(values, "cloudProvider")
	got := render(t, values)
	if len(got.Secrets) != 0 {
		t.Errorf("want no Secret, got %v", got.Secrets)
	}
	config := got.Clusters[0].Spec.RKEConfig
	if config.MachineSelectorConfig != nil || config.ChartValues != nil {
		t.Errorf("want no cloud provider wiring, got %v and %v", config.MachineSelectorConfig, config.ChartValues)
	}
}

func TestHarvesterCloudConfig(t *testing.T) {
	ca := "-----BEGIN CERTIFICATE-----\nMIIB+example/certificate==\n-----END CERTIFICATE-----\n"
	cases := map[string]struct {
		reason string
		ca     string
		want   []byte
	}{
		"WithCA":    {reason: "The CA is carried as base64 of the PEM text.", ca: ca, want: []byte(ca)},
		"WithoutCA": {reason: "Without a CA the key is absent and clients trust the system's authorities.", ca: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			values := readValues(t, "harvester-small")
			values["cloudProvider"].(map[string]any)["harvester"].(map[string]any)["caCertificate"] = tc.ca
			got := render(t, values).Secrets
			if len(got) != 1 {
				t.Fatalf("%s\nwant 1 Secret, got %d", tc.reason, len(got))
			}

			want := kubeconfig{
				APIVersion: "v1", Kind: "Config", CurrentContext: "default",
				Clusters: []namedCluster{{Name: "default"}},
				Users:    []namedUser{{Name: "default"}},
				Contexts: []namedContext{{Name: "default"}},
			}
			want.Clusters[0].Cluster.Server = "https://10.0.0.10:6443"
			want.Clusters[0].Cluster.CertificateAuthorityData = tc.want
			want.Users[0].User.Token = "eyJhbGciOi.example-token"
			want.Contexts[0].Context.Cluster = "default"
			want.Contexts[0].Context.User = "default"
			want.Contexts[0].Context.Namespace = "rig-prod"
			if diff := cmp.Diff(want, decode[kubeconfig](t, string(got[0].Data["credential"]))); diff != "" {
				t.Errorf("%s\nkubeconfig: -want, +got:\n%s", tc.reason, diff)
			}

			wantSecret := secret{
				TypeMeta: secretMeta("payments-dev-x7k2p-cloud-config", map[string]string{"v2prov-secret-authorized-for-cluster": "payments-dev-x7k2p"}),
				Type:     "Opaque",
				Data:     map[string][]byte{"credential": got[0].Data["credential"]},
			}
			if diff := cmp.Diff(wantSecret, got[0]); diff != "" {
				t.Errorf("%s\nSecret: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestVsphereCredentials(t *testing.T) {
	annotations := func(target string) map[string]string {
		return map[string]string{
			"rke.cattle.io/object-authorized-for-clusters": "billing",
			"provisioning.cattle.io/sync-bootstrap":        "true",
			"provisioning.cattle.io/sync-target-namespace": "kube-system",
			"provisioning.cattle.io/sync-target-name":      target,
		}
	}
	want := []secret{
		{
			TypeMeta: secretMeta("billing-vsphere-cpi", annotations("rancher-vsphere-cpi-credentials")),
			Type:     "Opaque",
			Data: map[string][]byte{
				"vcenter.example.org.username": []byte("rig@vsphere.local"),
				"vcenter.example.org.password": []byte(`p,a{s}"w\0rd`),
			},
		},
		{
			TypeMeta: secretMeta("billing-vsphere-csi", annotations("rancher-vsphere-csi-credentials")),
			Type:     "Opaque",
			Data: map[string][]byte{"csi-vsphere.conf": []byte(`[Global]
cluster-id = "{{clusterId}}"
user = "rig@vsphere.local"
password = "p,a{s}\"w\\0rd"
port = "8443"
insecure-flag = "true"

[VirtualCenter "vcenter.example.org"]
datacenters = "dc1,dc 2"
`)},
		},
	}
	got := render(t, change(t, "vsphere", `cloudProvider: {vsphere: {port: 8443, insecureFlag: true}}`))
	if diff := cmp.Diff(want, got.Secrets); diff != "" {
		t.Errorf("Secrets: -want, +got:\n%s", diff)
	}
}

func TestSecretsStayInSecrets(t *testing.T) {
	cases := map[string]struct {
		reason string
		values string
		secret []string
	}{
		"Harvester": {reason: "The token belongs to the cloud-config Secret only.", values: "harvester-full", secret: []string{"eyJhbGciOi.example-token"}},
		"Vsphere":   {reason: "The vCenter account belongs to the synced Secrets only.", values: "vsphere", secret: []string{"rig@vsphere.local", `p,a{s}"w\0rd`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := render(t, readValues(t, tc.values))
			inSecrets := 0
			for _, document := range got.Documents {
				if document.Kind == "Secret" {
					inSecrets++
					continue
				}
				var plain any
				if err := yaml.Unmarshal([]byte(document.Text), &plain); err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprint(plain)
				for _, s := range tc.secret {
					if strings.Contains(text, s) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(s))) {
						t.Errorf("%s\n%s contains secret material:\n%s", tc.reason, document.Kind, document.Text)
					}
				}
			}
			if inSecrets == 0 {
				t.Errorf("%s\nno Secret was rendered", tc.reason)
			}
		})
	}
}

// names returns kind/name of every rendered object.
func names(t *testing.T, values map[string]any) []string {
	t.Helper()
	var all []string
	for _, document := range render(t, values).Documents {
		var m TypeMeta
		if err := yaml.Unmarshal([]byte(document.Text), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m.Kind+"/"+m.Metadata.Name)
	}
	return all
}

func poolConfigName(t *testing.T, values map[string]any, pool string) string {
	t.Helper()
	for _, p := range render(t, values).Clusters[0].Spec.RKEConfig.MachinePools {
		if p.Name == pool {
			return p.MachineConfigRef.Name
		}
	}
	t.Fatalf("no pool %s", pool)
	return ""
}

func TestMachineConfigNameFollowsContent(t *testing.T) {
	const pool = "workers"
	cases := map[string]struct {
		reason  string
		change  string
		changes bool
	}{
		"Memory":         {reason: "Another size is another machine.", change: `pools: {workers: {machineConfig: {memorySize: "32"}}}`, changes: true},
		"UserData":       {reason: "Cloud-init runs on first boot only, so nodes are replaced.", change: `pools: {workers: {machineConfig: {userData: "#cloud-config\n"}}}`, changes: true},
		"NewField":       {reason: "A field that was unset is content too.", change: `pools: {workers: {machineConfig: {cpuModel: host-passthrough}}}`, changes: true},
		"UnsetField":     {reason: "An empty field is not rendered, so it is no content.", change: `pools: {workers: {machineConfig: {cpuModel: ""}}}`},
		"Quantity":       {reason: "Scaling replaces nothing.", change: `pools: {workers: {quantity: 7}}`},
		"Labels":         {reason: "Rancher sets labels on live nodes.", change: `pools: {workers: {labels: {a: b}}}`},
		"Taints":         {reason: "Rancher sets taints on live nodes.", change: `pools: {workers: {taints: [{key: a, effect: NoSchedule}]}}`},
		"Roles":          {reason: "Roles are no part of the machine config.", change: `pools: {workers: {roles: [worker, etcd]}}`},
		"RollingUpdate":  {reason: "How to roll is not what to roll.", change: `pools: {workers: {rollingUpdate: {maxSurge: 3}}}`},
		"PoolDefaults":   {reason: "Pool settings are no part of the machine config.", change: `poolDefaults: {drainBeforeDelete: false}`},
		"ClusterVersion": {reason: "RKE2 is upgraded in place.", change: `cluster: {kubernetesVersion: v1.33.0+rke2r1}`},
		"OtherPool":      {reason: "Pools do not touch each other.", change: `pools: {control-plane: {machineConfig: {memorySize: "32"}}}`},
	}
	before := poolConfigName(t, readValues(t, "harvester-full"), pool)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := poolConfigName(t, change(t, "harvester-full", tc.change), pool)
			if changed := after != before; changed != tc.changes {
				t.Errorf("%s\nname changed: want %t, got %t (%s, %s)", tc.reason, tc.changes, changed, before, after)
			}
		})
	}
}

func TestMachineConfigNameHash(t *testing.T) {
	values := readValues(t, "harvester-small")
	content := values["pools"].(map[string]any)["all"].(map[string]any)["machineConfig"]
	input, err := json.Marshal([]any{"payments-dev-x7k2p", "all", content})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("payments-dev-x7k2p-all-%x", sha256.Sum256(input))[:len("payments-dev-x7k2p-all-")+8]
	if got := poolConfigName(t, values, "all"); got != want {
		t.Errorf("machine config name: want %s, got %s", want, got)
	}
}

// poolsNamed returns the small values for a cluster with worker pools of these
// names, all with the same machine config, beside one control plane.
func poolsNamed(t *testing.T, clusterName string, pools ...string) map[string]any {
	t.Helper()
	values := readValues(t, "harvester-small")
	values["cluster"].(map[string]any)["name"] = clusterName
	all := values["pools"].(map[string]any)
	for _, name := range pools {
		all[name] = map[string]any{"quantity": 1.0, "roles": []any{"worker"}, "machineConfig": all["all"].(map[string]any)["machineConfig"]}
	}
	return values
}

func TestObjectNamesAreUnique(t *testing.T) {
	long := strings.Repeat("x", 62)
	cases := map[string]struct {
		reason string
		values []map[string]any
	}{
		"SamePools": {
			reason: "Two clusters in one namespace share no object, or Rancher refuses the second.",
			values: []map[string]any{poolsNamed(t, "one", "a", "b"), poolsNamed(t, "two", "a", "b")},
		},
		"DashInNames": {
			reason: "Cluster and pool names joined by dashes are ambiguous; the hash is not.",
			values: []map[string]any{poolsNamed(t, "aa", "b-c"), poolsNamed(t, "aa-b", "c")},
		},
		"LongPools": {
			reason: "Pool names that differ only where the name is cut.",
			values: []map[string]any{poolsNamed(t, "one", long+"a", long+"b")},
		},
		"LongClusters": {
			reason: "Cluster names that differ only where the name is cut.",
			values: []map[string]any{poolsNamed(t, long+"a", "p"), poolsNamed(t, long+"b", "p")},
		},
		"CutAtDash": {
			reason: "A cut that ends in a dash still is a valid name.",
			values: []map[string]any{poolsNamed(t, strings.Repeat("y", 53), "p", "q")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for _, values := range tc.values {
				for _, object := range names(t, values) {
					if seen[object] {
						t.Errorf("%s\n%s exists twice", tc.reason, object)
					}
					seen[object] = true
					kind, objectName, _ := strings.Cut(object, "/")
					if kind == "HarvesterConfig" && (len(objectName) > 63 || strings.HasSuffix(objectName, "-")) {
						t.Errorf("%s\n%s (%d characters) is no valid machine config name", tc.reason, objectName, len(objectName))
					}
				}
			}
		})
	}
}

func TestEveryPoolHasItsMachineConfig(t *testing.T) {
	got := render(t, poolsNamed(t, strings.Repeat("x", 63), "a", strings.Repeat("p", 63)))
	rendered := map[string]bool{}
	for _, config := range got.Harvester {
		rendered[config.Metadata.Name] = true
	}
	pools := got.Clusters[0].Spec.RKEConfig.MachinePools
	for _, pool := range pools {
		if !rendered[pool.MachineConfigRef.Name] {
			t.Errorf("pool %s refers to machine config %s, which is not rendered", pool.Name, pool.MachineConfigRef.Name)
		}
	}
	if len(rendered) != len(pools) {
		t.Errorf("want one machine config per pool, got %d for %d pools", len(rendered), len(pools))
	}
}

func TestRenderIsDeterministic(t *testing.T) {
	for _, name := range []string{"harvester-small", "harvester-full", "vsphere", "aws"} {
		first, err := renderFiles(t, readValues(t, name), "fleet-default")
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			again, err := renderFiles(t, readValues(t, name), "fleet-default")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first, again); diff != "" {
				t.Fatalf("%s: rendered again: -first, +again:\n%s", name, diff)
			}
		}
	}
}

// Helm's command line keeps numbers as json.Number or int64, provider-helm
// turns them into float64: the outcome must not depend on it.
func TestNumbersStayIntegers(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "harvester-full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	exact, err := chartutil.ReadValues(data)
	if err != nil {
		t.Fatal(err)
	}
	fromFloats := render(t, readValues(t, "harvester-full"))
	fromNumbers := render(t, exact)
	if diff := cmp.Diff(fromFloats.Documents, fromNumbers.Documents); diff != "" {
		t.Errorf("documents: -from float64, +from json.Number:\n%s", diff)
	}
	text := fmt.Sprint(fromFloats.Documents)
	for _, want := range []string{"quantity: 100000000\n", "etcd-snapshot-retention: 100000000\n", "timeout: 600\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in the rendered Cluster", want)
		}
	}
}

func TestUnsetValuesAreOmitted(t *testing.T) {
	cases := map[string]struct {
		reason string
		change string
	}{
		"Empty": {
			reason: "An explicit empty value equals an unset one.",
			change: `
cluster:
  cloudCredentialSecretName: ""
  labels: {}
  annotations: {}
  defaultPodSecurityAdmissionConfigurationTemplateName: ""
  localClusterAuthEndpoint: {enabled: false, fqdn: "", caCerts: ""}
  agentEnvVars: []
  machineSelectorConfig: []
  chartValues: {}
  additionalManifest: ""
  registries: {mirrors: {}, configs: {}}
  upgradeStrategy: {controlPlaneDrainOptions: {}, workerDrainOptions: {}}
  etcd: {s3: {}}
pools:
  all: {labels: {}, taints: [], machineConfig: {sshUser: "", userData: ""}}
`,
		},
		"Null": {
			reason: "Helm removes a default by null; what has no content anyway may go.",
			change: `
cluster:
  cloudCredentialSecretName: null
  labels: null
  annotations: null
  agentEnvVars: null
  machineSelectorConfig: null
  chartValues: null
  additionalManifest: null
  registries: null
`,
		},
	}
	want := render(t, readValues(t, "harvester-small"))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			values := change(t, "harvester-small", tc.change)
			if diff := cmp.Diff(want.Documents, render(t, values).Documents); diff != "" {
				t.Errorf("%s\ndocuments: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestNamespaceIsTheRelease(t *testing.T) {
	files, err := renderFiles(t, readValues(t, "harvester-small"), "12345")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if strings.TrimSpace(text) == "" {
			continue
		}
		var m TypeMeta
		if err := yaml.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if m.Metadata.Namespace != "12345" {
			t.Errorf("%s: namespace: want 12345, got %q", name, m.Metadata.Namespace)
		}
	}
	if want := "secret://12345:payments-dev-x7k2p-cloud-config"; !strings.Contains(files["rke2-cluster/templates/cluster.yaml"], want) {
		t.Errorf("want %s in the Cluster", want)
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		reason string
		values string
		change string
		want   []string // parts of the error: the path and what is wrong
	}{
		"UnknownRootKey":     {reason: "A typo must not be ignored.", change: `clutser: {}`, want: []string{"'clutser' not allowed"}},
		"UnknownClusterKey":  {reason: "A typo must not be ignored.", change: `cluster: {kubernetesVersions: v1}`, want: []string{"at '/cluster'", "'kubernetesVersions' not allowed"}},
		"UnknownPoolKey":     {reason: "displayName is not used by Rancher.", change: `pools: {all: {displayName: x}}`, want: []string{"at '/pools/all'", "'displayName' not allowed"}},
		"DynamicSchemaSpec":  {reason: "Rancher fills it.", change: `pools: {all: {dynamicSchemaSpec: x}}`, want: []string{"at '/pools/all'", "'dynamicSchemaSpec' not allowed"}},
		"UnknownDefaultsKey": {reason: "A typo must not be ignored.", change: `poolDefaults: {drain: true}`, want: []string{"at '/poolDefaults'", "'drain' not allowed"}},
		"UnknownConfigField": {reason: "Rancher's CRD would drop it.", change: `pools: {all: {machineConfig: {cpus: "4"}}}`, want: []string{"at '/pools/all/machineConfig'", "'cpus' not allowed"}},
		"OtherKindsField":    {reason: "Fields belong to their kind.", change: `pools: {all: {machineConfig: {datastore: ds1}}}`, want: []string{"at '/pools/all/machineConfig'", "'datastore' not allowed"}},
		"CredentialInConfig": {reason: "Credentials belong into the cloud credential.", change: `pools: {all: {machineConfig: {kubeconfigContent: x}}}`, want: []string{"at '/pools/all/machineConfig'", "'kubeconfigContent' not allowed"}},
		"PasswordInConfig":   {reason: "Credentials belong into the cloud credential.", values: "vsphere", change: `pools: {workers: {machineConfig: {password: x}}}`, want: []string{"at '/pools/workers/machineConfig'", "'password' not allowed"}},
		"CPUAsNumber":        {reason: "Rancher's CRD has strings for int flags.", change: `pools: {all: {machineConfig: {cpuCount: 4}}}`, want: []string{"at '/pools/all/machineConfig/cpuCount'", "got number, want string"}},
		"MemoryWithUnit":     {reason: "The unit is fixed: GiB.", change: `pools: {all: {machineConfig: {memorySize: 8Gi}}}`, want: []string{"at '/pools/all/machineConfig/memorySize'", "does not match pattern"}},
		"DiskAsNumber":       {reason: "Rancher's CRD has strings for int flags.", values: "vsphere", change: `pools: {workers: {machineConfig: {diskSize: 40960}}}`, want: []string{"at '/pools/workers/machineConfig/diskSize'", "got number, want string"}},
		"DiskInfoAsArray":    {reason: "diskInfo is a JSON string.", change: `pools: {all: {machineConfig: {diskInfo: [{size: 40}]}}}`, want: []string{"at '/pools/all/machineConfig/diskInfo'", "got array, want string"}},
		"RootSizeAsNumber":   {reason: "Rancher's CRD has strings for int flags.", values: "aws", change: `pools: {all-a: {machineConfig: {rootSize: 100}}}`, want: []string{"at '/pools/all-a/machineConfig/rootSize'", "got number, want string"}},
		"GroupAsString":      {reason: "Slice flags are arrays.", values: "aws", change: `pools: {all-a: {machineConfig: {securityGroup: rig}}}`, want: []string{"at '/pools/all-a/machineConfig/securityGroup'", "got string, want array"}},
		"ZoneWithRegion":     {reason: "The driver puts the region before the letter.", values: "aws", change: `pools: {all-a: {machineConfig: {zone: eu-central-1a}}}`, want: []string{"at '/pools/all-a/machineConfig/zone'", "does not match pattern"}},
		"KeyInConfig":        {reason: "Credentials belong into the cloud credential.", values: "aws", change: `pools: {all-a: {machineConfig: {secretKey: x}}}`, want: []string{"at '/pools/all-a/machineConfig'", "'secretKey' not allowed"}},
		"NoInstanceType":     {reason: "The driver's default would cost quota unseen.", values: "aws", change: `pools: {all-a: {machineConfig: {instanceType: null}}}`, want: []string{"at '/pools/all-a/machineConfig'", "missing property 'instanceType'"}},
		"ControllerPlain":    {reason: "A chart is pulled by TLS only.", values: "aws", change: `cloudProvider: {aws: {repository: "http://charts.example.org"}}`, want: []string{"at '/cloudProvider/aws/repository'", "does not match pattern"}},
		"NetworkAsString":    {reason: "Slice flags are arrays.", values: "vsphere", change: `pools: {workers: {machineConfig: {network: vlan10}}}`, want: []string{"at '/pools/workers/machineConfig/network'", "got string, want array"}},
		"TemplateNoSource":   {reason: "Every creation type but legacy clones.", values: "vsphere", change: `pools: {workers: {machineConfig: {cloneFrom: null}}}`, want: []string{"at '/pools/workers/machineConfig'", "missing property 'cloneFrom'"}},
		"MissingSize":        {reason: "The driver's default would cost quota unseen.", change: `pools: {all: {machineConfig: {memorySize: null}}}`, want: []string{"at '/pools/all/machineConfig'", "missing property 'memorySize'"}},
		"PoolWithoutRole":    {reason: "Rancher wants at least one role.", change: `pools: {all: {roles: []}}`, want: []string{"at '/pools/all/roles'", "minItems"}},
		"UnknownRole":        {reason: "Roles are Rancher's.", change: `pools: {all: {roles: [master]}}`, want: []string{"at '/pools/all/roles/0'", "'control-plane', 'etcd', 'worker'"}},
		"QuantityAsString":   {reason: "A count is a number.", change: `pools: {all: {quantity: "3"}}`, want: []string{"at '/pools/all/quantity'", "got string, want integer"}},
		"QuantityFraction":   {reason: "A count is whole.", change: `pools: {all: {quantity: 1.5}}`, want: []string{"at '/pools/all/quantity'", "want integer"}},
		"QuantityNegative":   {reason: "A count is not negative.", change: `pools: {all: {quantity: -1}}`, want: []string{"at '/pools/all/quantity'", "minimum"}},
		"PoolName":           {reason: "The pool's name becomes part of object names.", change: `pools: {Big_Pool: {}}`, want: []string{"at '/pools'", "'Big_Pool'"}},
		"TaintEffect":        {reason: "Kubernetes knows three effects.", change: `pools: {all: {taints: [{key: a, effect: Never}]}}`, want: []string{"at '/pools/all/taints/0/effect'", "'NoSchedule'"}},
		"LabelAsBool":        {reason: "Label values are strings.", change: `pools: {all: {labels: {gpu: true}}}`, want: []string{"at '/pools/all/labels/gpu'", "got boolean, want string"}},
		"UnknownKind":        {reason: "The chart knows three kinds.", change: `machineConfigKind: NutanixConfig`, want: []string{"at '/machineConfigKind'", "'HarvesterConfig', 'VmwarevsphereConfig', 'Amazonec2Config'"}},
		"MissingKind":        {reason: "There is no default kind.", change: `machineConfigKind: null`, want: []string{"missing property 'machineConfigKind'"}},
		"OtherCloudProvider": {reason: "The cloud provider fits the machines.", change: `cloudProvider: {harvester: null, vsphere: {host: v.example.org, datacenters: [a]}}`, want: []string{"at '/cloudProvider'", "'vsphere'"}},
		"BothProviders":      {reason: "A cluster has one cloud provider.", values: "vsphere", change: `cloudProvider: {harvester: {server: "https://h.example.org", namespace: a}}`, want: []string{"at '/cloudProvider'", "'harvester'"}},
		"HarvesterServer":    {reason: "A token is sent by TLS only.", change: `cloudProvider: {harvester: {server: "http://10.0.0.10"}}`, want: []string{"at '/cloudProvider/harvester/server'", "does not match pattern"}},
		"VsphereHostURL":     {reason: "The host is a key of the Secret.", values: "vsphere", change: `cloudProvider: {vsphere: {host: "https://vcenter.example.org"}}`, want: []string{"at '/cloudProvider/vsphere/host'", "does not match pattern"}},
		"ClusterNameDots":    {reason: "Dots break Fleet.", change: `cluster: {name: a.b}`, want: []string{"at '/cluster/name'", "does not match pattern"}},
		"ClusterNameLocal":   {reason: "Rancher reserves it.", change: `cluster: {name: local}`, want: []string{"at '/cluster/name'", "'not' failed"}},
		"ClusterNameID":      {reason: "Rancher reserves it.", change: `cluster: {name: c-ab12c}`, want: []string{"at '/cluster/name'", "'not' failed"}},
		"ClusterNameLong":    {reason: "Rancher's limit.", change: `cluster: {name: ` + strings.Repeat("a", 64) + `}`, want: []string{"at '/cluster/name'", "maxLength"}},
		"ClusterNameMissing": {reason: "There is no default name.", change: `cluster: {name: null}`, want: []string{"at '/cluster'", "missing property 'name'"}},
		"K3sVersion":         {reason: "The chart is for RKE2.", change: `cluster: {kubernetesVersion: v1.31.7+k3s1}`, want: []string{"at '/cluster/kubernetesVersion'", "does not match pattern"}},
		"CACertsWithoutFQDN": {reason: "Rancher's webhook refuses it.", change: `cluster: {localClusterAuthEndpoint: {enabled: true, caCerts: pem}}`, want: []string{"at '/cluster/localClusterAuthEndpoint/fqdn'", "minLength"}},
		"ConcurrencyNumber":  {reason: "Rancher has a string.", change: `cluster: {upgradeStrategy: {workerConcurrency: 2}}`, want: []string{"at '/cluster/upgradeStrategy/workerConcurrency'", "got number, want string"}},
		"DrainOption":        {reason: "A typo must not be ignored.", change: `cluster: {upgradeStrategy: {workerDrainOptions: {graceperiod: 1}}}`, want: []string{"at '/cluster/upgradeStrategy/workerDrainOptions'", "'graceperiod' not allowed"}},
		"S3Key":              {reason: "Keys of S3 belong into a cloud credential.", change: `cluster: {etcd: {s3: {secretKey: x}}}`, want: []string{"at '/cluster/etcd/s3'", "'secretKey' not allowed"}},
		"RegistryPassword":   {reason: "Registry credentials belong into a Secret.", change: `cluster: {registries: {configs: {r.example.org: {password: x}}}}`, want: []string{"at '/cluster/registries/configs/r.example.org'", "'password' not allowed"}},
		"TimeoutAsNumber":    {reason: "A duration has a unit.", change: `poolDefaults: {unhealthyNodeTimeout: 600}`, want: []string{"at '/poolDefaults/unhealthyNodeTimeout'", "got number, want string"}},
		"TimeoutWithoutUnit": {reason: "A duration has a unit.", change: `poolDefaults: {nodeStartupTimeout: "600"}`, want: []string{"at '/poolDefaults/nodeStartupTimeout'", "does not match pattern"}},
		"SurgeNegative":      {reason: "A count is not negative.", change: `poolDefaults: {rollingUpdate: {maxSurge: -1}}`, want: []string{"at '/poolDefaults/rollingUpdate/maxSurge'", "minimum"}},
		"HostnameLimit":      {reason: "Rancher's bounds.", change: `pools: {all: {hostnameLengthLimit: 64}}`, want: []string{"at '/pools/all/hostnameLengthLimit'", "maximum"}},
		"NoPool":             {reason: "A cluster without machines never gets ready.", change: `pools: {all: null}`, want: []string{"at '/pools'", "minProperties"}},

		"NoToken":           {reason: "An empty token would give a cluster whose cloud provider never starts.", change: `cloudProvider: {harvester: {token: ""}}`, want: []string{"cloudProvider.harvester.token: is empty"}},
		"NoVspherePassword": {reason: "As for the token.", values: "vsphere", change: `cloudProvider: {vsphere: {password: ""}}`, want: []string{"cloudProvider.vsphere.password: is empty"}},
		"NoVsphereUsername": {reason: "As for the token.", values: "vsphere", change: `cloudProvider: {vsphere: {username: null}}`, want: []string{"cloudProvider.vsphere.username: is empty"}},
		"NoWorker":          {reason: "Rancher waits for a worker.", change: `pools: {all: {roles: [control-plane, etcd]}}`, want: []string{"pools: no pool has the role worker"}},
		"NoEtcdNode":        {reason: "A pool without nodes holds no etcd.", change: `pools: {all: {quantity: 0}}`, want: []string{"pools: no pool has the role control-plane and a node for it"}},
		"CannotRoll":        {reason: "Neither above nor below the quantity: no machine can be replaced.", change: `poolDefaults: {rollingUpdate: {maxSurge: 0}}`, want: []string{"pools.all.rollingUpdate: maxSurge and maxUnavailable are both 0"}},
		"CannotRollPercent": {reason: "0% is 0, and an unset maxUnavailable is Rancher's 0.", change: `pools: {all: {rollingUpdate: {maxSurge: 0%}}}`, want: []string{"pools.all.rollingUpdate: maxSurge and maxUnavailable are both 0"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			base := tc.values
			if base == "" {
				base = "harvester-small"
			}
			_, err := renderFiles(t, change(t, base, tc.change), "fleet-default")
			if err == nil {
				t.Fatalf("%s\nwant an error", tc.reason)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s\nerror: want %q in:\n%v", tc.reason, part, err)
				}
			}
			for _, s := range []string{"eyJhbGciOi", `p,a{s}`} {
				if strings.Contains(err.Error(), s) {
					t.Errorf("%s\nthe error contains secret material:\n%v", tc.reason, err)
				}
			}
		})
	}
}

// The fields of the drivers' flags with the JSON types of Rancher's CRDs, but
// for those that carry credentials.
func TestMachineConfigFields(t *testing.T) {
	const (
		text    = "text"
		number  = "12"
		boolean = true
	)
	list := []any{"urn:a=b"}
	cases := map[string]struct {
		reason     string
		values     string
		pool       string
		definition string
		fields     map[string]any
	}{
		"HarvesterConfig": {
			reason: "Flags of the Harvester node driver.", values: "harvester-small", pool: "all", definition: "harvesterConfig",
			fields: map[string]any{
				"vmNamespace": text, "cpuCount": number, "cpuModel": text, "memorySize": number, "reservedMemorySize": number,
				"diskInfo": "{}", "networkInfo": "{}", "diskSize": number, "diskBus": text, "imageName": text,
				"networkName": text, "networkModel": text, "networkType": text, "sshUser": text, "sshPort": number,
				"keyPairName": text, "sshPrivateKeyPath": text, "userData": text, "networkData": text, "vmAffinity": text,
				"cpuPinning": boolean, "isolateEmulatorThread": boolean, "enableEfi": boolean, "enableSecureBoot": boolean,
				"enableTpm": boolean, "vgpuInfo": text, "hostDeviceInfo": text, "clusterType": text, "clusterId": text,
			},
		},
		"VmwarevsphereConfig": {
			reason: "Flags of the vSphere node driver.", values: "vsphere", pool: "workers", definition: "vmwarevsphereConfig",
			fields: map[string]any{
				"vcenter": text, "vcenterPort": number, "datacenter": text, "datastore": text, "datastoreCluster": text,
				"folder": text, "pool": text, "hostsystem": text, "network": list, "cpuCount": number, "memorySize": number,
				"diskSize": number, "creationType": "library", "cloneFrom": text, "contentLibrary": text, "cloudConfig": text,
				"cloudinit": text, "boot2dockerUrl": text, "cfgparam": list, "tag": list, "customAttribute": list,
				"vappIpprotocol": text, "vappIpallocationpolicy": text, "vappTransport": text, "vappProperty": list,
				"sshUser": text, "sshPort": number, "sshUserGroup": text, "os": "linux", "gracefulShutdownTimeout": number,
			},
		},
		"Amazonec2Config": {
			reason: "Flags of the EC2 node driver.", values: "aws", pool: "all-a", definition: "amazonec2Config",
			fields: map[string]any{
				"region": text, "zone": "a", "vpcId": "vpc-1", "subnetId": "subnet-1", "ami": "ami-1", "instanceType": text,
				"rootSize": number, "volumeType": text, "deviceName": text, "encryptEbsVolume": boolean, "kmsKey": text,
				"securityGroup": list, "securityGroupReadonly": boolean, "openPort": list, "iamInstanceProfile": text,
				"sshUser": text, "keypairName": text, "sshKeyContents": text, "tags": text, "userdata": text,
				"usePrivateAddress": boolean, "privateAddressOnly": boolean, "requestSpotInstance": boolean, "spotPrice": text,
				"monitoring": boolean, "httpEndpoint": "enabled", "httpTokens": "optional", "endpoint": text, "retries": number,
			},
		},
	}
	c := mustLoad(t)
	var schema struct {
		Definitions map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"definitions"`
	}
	if err := json.Unmarshal(c.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := slices.Sorted(maps.Keys(tc.fields))
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(schema.Definitions[tc.definition].Properties))); diff != "" {
				t.Errorf("%s\nfields in the schema: -want, +got:\n%s", tc.reason, diff)
			}
			validate := func(field string, value any) error {
				fields := maps.Clone(tc.fields)
				fields[field] = value
				values := readValues(t, tc.values)
				values["pools"].(map[string]any)[tc.pool].(map[string]any)["machineConfig"] = fields
				return chartutil.ValidateAgainstSchema(c, values)
			}
			for field, value := range tc.fields {
				if err := validate(field, value); err != nil {
					t.Errorf("%s\n%s: want %v accepted: %v", tc.reason, field, value, err)
				}
				path := fmt.Sprintf("at '/pools/%s/machineConfig/%s'", tc.pool, field)
				if err := validate(field, 12.0); err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("%s\n%s: want a number refused %s, got %v", tc.reason, field, path, err)
				}
			}
		})
	}
}

func TestChart(t *testing.T) {
	c := mustLoad(t)
	type summary struct{ Name, Version, Type string }
	if diff := cmp.Diff(summary{"rke2-cluster", "0.1.0", "application"}, summary{c.Name(), c.Metadata.Version, c.Metadata.Type}); diff != "" {
		t.Errorf("chart: -want, +got:\n%s", diff)
	}
	fromDir, err := loader.Load("rke2-cluster")
	if err != nil {
		t.Fatal(err)
	}
	files := func(c *chart.Chart) map[string]string {
		all := map[string]string{}
		for _, f := range c.Raw {
			all[f.Name] = string(f.Data)
		}
		return all
	}
	if diff := cmp.Diff(files(fromDir), files(c)); diff != "" {
		t.Errorf("embedded chart: -directory, +embedded:\n%s", diff)
	}
}
