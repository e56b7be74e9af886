package aws

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/strategytest"
)

func scope(pools ...v1alpha1.AdmittedPool) strategies.Scope {
	return strategies.Scope{
		Cluster: "payments-x7k2p",
		Labels:  map[string]string{v1alpha1.LabelCluster: "payments-x7k2p", v1alpha1.LabelInfraBlueprint: "fra1"},
		Infra: v1alpha1.InfraBlueprintSpec{Credentials: v1alpha1.Credentials{
			InfrastructureProviderConfigRef: &v1alpha1.ProviderConfigReference{Name: "aws-fra1"},
		}},
		Pools:           pools,
		SecretNamespace: "crossplane-system",
	}
}

// pool of four cpus and 16Gi.
func pool(name string, count int64, instanceType string, disk v1alpha1.Quantity, roles ...v1alpha1.Role) v1alpha1.AdmittedPool {
	size := v1alpha1.NodeResources{CPU: "4", Memory: "16Gi", Disk: disk}
	return v1alpha1.AdmittedPool{
		Pool: v1alpha1.Pool{Name: name, Count: count, Roles: roles}, Size: size, Node: size, Type: instanceType,
	}
}

// machine is the machine config of a minimal blueprint in a zone, with changes.
func machine(zone string, changes map[string]any) map[string]any {
	config := map[string]any{
		"region": "eu-central-1", "zone": zone, "vpcId": "vpc-0a1b", "subnetId": "subnet-0" + zone, "ami": "ami-0c2d",
		"instanceType": "m6i.xlarge", "rootSize": "100", "volumeType": "gp3", "sshUser": "ubuntu",
		"securityGroup": []any{"rke2-nodes"}, "securityGroupReadonly": true,
		"tags": "kubernetes.io/cluster/payments-x7k2p,owned",
	}
	maps.Copy(config, changes)
	return map[string]any{"machineConfig": config}
}

func output(pools map[string]any) strategies.Output {
	return strategies.Output{
		Values:    map[string]any{"machineConfigKind": "Amazonec2Config", "pools": pools},
		Resources: map[string]strategies.Resource{},
	}
}

func resource(suffix, apiVersion, kind, externalName string, parameters map[string]any) strategies.Resource {
	metadata := map[string]any{
		"name":   "payments-x7k2p-" + suffix,
		"labels": map[string]any{"rig-gateway.io/cluster": "payments-x7k2p", "rig-gateway.io/infra-blueprint": "fra1"},
	}
	if externalName != "" {
		metadata["annotations"] = map[string]any{"crossplane.io/external-name": externalName}
	}
	return strategies.Resource{
		"apiVersion": apiVersion, "kind": kind, "metadata": metadata,
		"spec": map[string]any{"providerConfigRef": map[string]any{"name": "aws-fra1"}, "forProvider": parameters},
	}
}

func TestCluster(t *testing.T) {
	const worker, control = v1alpha1.RoleWorker, v1alpha1.RoleControlPlane
	withProvider := output(map[string]any{"all-b": machine("b", nil)})
	withProvider.Values["cloudProvider"] = map[string]any{"aws": map[string]any{"repository": "https://charts.example.org", "version": "0.0.8"}}
	cases := map[string]struct {
		reason string
		change change
		pools  []v1alpha1.AdmittedPool
		want   strategies.Output
	}{
		"OneNode": {
			reason: "One node is in one zone, with the subnet of that zone; the root disk is in GiB, as a string.",
			pools:  []v1alpha1.AdmittedPool{pool("all", 1, "m6i.xlarge", "100Gi", control, worker)},
			want:   output(map[string]any{"all-b": machine("b", nil)}),
		},
		"Zones": {
			reason: "A pool is spread over the zones; a machine config has one zone.",
			pools: []v1alpha1.AdmittedPool{
				pool("all", 3, "m6i.xlarge", "100Gi", control), pool("more", 2, "r6i.xlarge", "1Ti", worker),
			},
			want: output(map[string]any{
				"all-a": machine("a", nil), "all-b": machine("b", nil), "all-c": machine("c", nil),
				"more-a": machine("a", map[string]any{"instanceType": "r6i.xlarge", "rootSize": "1024"}),
				"more-c": machine("c", map[string]any{"instanceType": "r6i.xlarge", "rootSize": "1024"}),
			}),
		},
		"Admitted": {
			reason: "A pool keeps the type that it was admitted with, also one that is no longer in the table.",
			change: func(s *v1alpha1.AwsBlueprintSpec) {
				s.InstanceTypes = []v1alpha1.AwsInstanceType{{Name: "m7i.xlarge", CPU: "4", Memory: "16Gi"}}
				s.AMIDisk = "200Gi"
			},
			pools: []v1alpha1.AdmittedPool{pool("all", 1, "m6i.xlarge", "100Gi", worker)},
			want:  output(map[string]any{"all-b": machine("b", nil)}),
		},
		"Options": {
			reason: "What is set is passed on, and the profile follows the roles.",
			change: func(s *v1alpha1.AwsBlueprintSpec) {
				s.VolumeType, s.EncryptVolumes, s.PrivateAddressOnly, s.HTTPTokens = "gp2", true, true, "required"
				s.InstanceProfiles = v1alpha1.AwsInstanceProfiles{ControlPlane: "rke2-servers", Worker: "rke2-agents"}
				s.CloudInit = "timezone: UTC"
				s.Zones = s.Zones[:1]
			},
			pools: []v1alpha1.AdmittedPool{
				pool("control", 1, "m6i.xlarge", "100Gi", v1alpha1.RoleEtcd, control), pool("workers", 1, "m6i.xlarge", "100Gi", worker),
			},
			want: output(map[string]any{
				"control-c": machine("c", map[string]any{
					"volumeType": "gp2", "encryptEbsVolume": true, "privateAddressOnly": true, "httpTokens": "required",
					"iamInstanceProfile": "rke2-servers", "userdata": "#cloud-config\ntimezone: UTC\n",
				}),
				"workers-c": machine("c", map[string]any{
					"volumeType": "gp2", "encryptEbsVolume": true, "privateAddressOnly": true, "httpTokens": "required",
					"iamInstanceProfile": "rke2-agents", "userdata": "#cloud-config\ntimezone: UTC\n",
				}),
			}),
		},
		"CloudProvider": {
			reason: "The chart knows how to wire it.",
			change: func(s *v1alpha1.AwsBlueprintSpec) {
				s.CloudProvider = &v1alpha1.AwsCloudProvider{Repository: "https://charts.example.org", Version: "0.0.8"}
			},
			pools: []v1alpha1.AdmittedPool{pool("all", 1, "m6i.xlarge", "100Gi", worker)},
			want:  withProvider,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changes := []change{}
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			got, err := open(t, changes...).Cluster(scope(tc.pools...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nCluster(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// everything is set.
func everything(s *v1alpha1.AwsBlueprintSpec) {
	s.SecurityGroup = v1alpha1.AwsSecurityGroup{Manage: true, Rules: []v1alpha1.AwsSecurityGroupRule{
		{Protocol: "tcp", FromPort: 22, CIDR: "10.0.0.0/8"}, {Protocol: "udp", FromPort: 4789},
	}}
	s.InstanceProfiles.Manage = true
	s.CloudProvider = &v1alpha1.AwsCloudProvider{Repository: "https://charts.example.org", Version: "0.0.8"}
}

func TestManaged(t *testing.T) {
	group := map[string]any{"name": "payments-x7k2p-securitygroup"}
	rule := func(protocol string, from, to int64, cidr string) map[string]any {
		parameters := map[string]any{
			"region": "eu-central-1", "securityGroupIdRef": group, "ipProtocol": protocol, "fromPort": from, "toPort": to,
		}
		if cidr != "" {
			parameters["cidrIpv4"] = cidr
		} else {
			parameters["referencedSecurityGroupIdRef"] = group
		}
		return parameters
	}
	want := map[string]strategies.Resource{
		"securitygroup": resource("securitygroup", "ec2.aws.upbound.io/v1beta1", "SecurityGroup", "", map[string]any{
			"region": "eu-central-1", "name": "rig-payments-x7k2p", "description": "Nodes of cluster payments-x7k2p", "vpcId": "vpc-0a1b",
			"tags": map[string]any{"kubernetes.io/cluster/payments-x7k2p": "owned"},
		}),
		"egress": resource("egress", "ec2.aws.upbound.io/v1beta1", "SecurityGroupEgressRule", "", map[string]any{
			"region": "eu-central-1", "securityGroupIdRef": group, "ipProtocol": "-1", "cidrIpv4": "0.0.0.0/0",
		}),
	}
	for suffix, parameters := range map[string]map[string]any{
		"tcp6443":             rule("tcp", 6443, 6443, ""),
		"tcp9345":             rule("tcp", 9345, 9345, ""),
		"tcp10250":            rule("tcp", 10250, 10250, ""),
		"tcp2379to2381":       rule("tcp", 2379, 2381, ""),
		"tcp30000to32767":     rule("tcp", 30000, 32767, ""),
		"udp8472":             rule("udp", 8472, 8472, ""),
		"tcp9099":             rule("tcp", 9099, 9099, ""),
		"udp51820to51821":     rule("udp", 51820, 51821, ""),
		"tcp22from10x0x0x0s8": rule("tcp", 22, 22, "10.0.0.0/8"),
		"udp4789":             rule("udp", 4789, 4789, ""),
	} {
		want[suffix] = resource(suffix, "ec2.aws.upbound.io/v1beta1", "SecurityGroupIngressRule", "", parameters)
	}
	for role, policy := range map[string]string{"controlplane": controlPlanePolicy, "worker": workerPolicy} {
		name, reference := "payments-x7k2p-"+role, map[string]any{"name": "payments-x7k2p-" + role + "role"}
		want[role+"role"] = resource(role+"role", "iam.aws.upbound.io/v1beta1", "Role", name, map[string]any{"assumeRolePolicy": assumeRole})
		want[role+"policy"] = resource(role+"policy", "iam.aws.upbound.io/v1beta1", "RolePolicy", name, map[string]any{"roleRef": reference, "policy": policy})
		want[role+"profile"] = resource(role+"profile", "iam.aws.upbound.io/v1beta1", "InstanceProfile", name, map[string]any{"roleRef": reference})
	}
	got, err := open(t, everything).Cluster(scope(pool("all", 1, "m6i.xlarge", "100Gi", v1alpha1.RoleControlPlane)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Resources); diff != "" {
		t.Errorf("Cluster(...): resources: -want, +got:\n%s", diff)
	}
	// The machines are put into what is made.
	pools := map[string]any{"all-b": machine("b", map[string]any{
		"securityGroup": []any{"rig-payments-x7k2p"}, "iamInstanceProfile": "payments-x7k2p-controlplane",
	})}
	if diff := cmp.Diff(pools, got.Values["pools"]); diff != "" {
		t.Errorf("Cluster(...): pools: -want, +got:\n%s", diff)
	}
}

// Role, policy and instance profile of a cluster with a long name have one name that IAM takes, and machines know it.
func TestLongNames(t *testing.T) {
	in := scope(pool("all", 1, "m6i.xlarge", "100Gi", v1alpha1.RoleWorker))
	in.Cluster = strings.Repeat("a", 63)
	got, err := open(t, everything).Cluster(in)
	if err != nil {
		t.Fatal(err)
	}
	names := map[any]bool{}
	for _, suffix := range []string{"workerrole", "workerprofile"} {
		names[got.Resources[suffix]["metadata"].(map[string]any)["annotations"].(map[string]any)[v1alpha1.AnnotationExternalName]] = true
	}
	for _, p := range got.Values["pools"].(map[string]any) {
		names[p.(map[string]any)["machineConfig"].(map[string]any)["iamInstanceProfile"]] = true
	}
	if len(names) != 1 {
		t.Fatalf("want one name, got %v", names)
	}
	for name := range names {
		if len(name.(string)) > 64 {
			t.Errorf("IAM takes at most 64 characters, got %d: %s", len(name.(string)), name)
		}
	}
	if profileName(in.Cluster, worker) == profileName(in.Cluster, controlPlane) {
		t.Error("two roles have one name")
	}
}

// Policies that AWS refuses to read give no rights.
func TestPolicies(t *testing.T) {
	for name, policy := range map[string]string{"controlPlane": controlPlanePolicy, "worker": workerPolicy, "assumeRole": assumeRole} {
		var document struct {
			Version   string
			Statement []struct {
				Effect string
				Action any
			}
		}
		if err := json.Unmarshal([]byte(policy), &document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if document.Version != "2012-10-17" || len(document.Statement) != 1 || document.Statement[0].Effect != "Allow" || document.Statement[0].Action == nil {
			t.Errorf("%s: got %+v", name, document)
		}
		// IAM's limit for the inline policies of a role, white space not counted.
		if size := len(strings.Join(strings.Fields(policy), "")); size > 10240 {
			t.Errorf("%s has %d characters", name, size)
		}
	}
}

func TestClusterRefusals(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*strategies.Scope)
		want   string
	}{
		"NoProviderConfig": {
			"Nothing can be made on AWS.",
			func(s *strategies.Scope) { s.Infra.Credentials.InfrastructureProviderConfigRef = nil },
			"spec.credentials.infrastructureProviderConfigRef: Required value: name the ProviderConfig of the AWS providers that makes security groups and instance profiles",
		},
		"NoType": {
			"Pools admitted with another provider have no type.",
			func(s *strategies.Scope) { s.Pools[0].Type = "" },
			"status.quota.pools[all].type: Required value: the pool was admitted without an instance type",
		},
		"NotWhole": {
			"Pools admitted with another provider are not rounded.",
			func(s *strategies.Scope) { s.Pools[0].Size.Disk = "50001Mi" },
			`cannot build pool all: status.quota.pools[all].size.disk: Invalid value: "50001Mi": EC2 builds whole GiB, at least one: use 49Gi`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := scope(pool("all", 3, "m6i.xlarge", "100Gi", v1alpha1.RoleWorker))
			tc.change(&in)
			got, err := open(t, everything).Cluster(in)
			if err == nil || err.Error() != tc.want {
				t.Errorf("%s\nCluster(...): got error %v, want %s", tc.reason, err, tc.want)
			}
			if diff := cmp.Diff(strategies.Output{}, got); diff != "" {
				t.Errorf("%s\nCluster(...): an error beside an output:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestClusterPure(t *testing.T) {
	raw := blueprint(t, spec(everything))
	strategytest.Pure(t, Open, raw, scope(pool("a", 4, "m6i.xlarge", "40Gi", v1alpha1.RoleControlPlane), pool("b", 1, "m6i.xlarge", "40Gi", v1alpha1.RoleWorker)))
}

func TestDivide(t *testing.T) {
	for _, zones := range []int{1, 2, 3} {
		s := open(t, func(s *v1alpha1.AwsBlueprintSpec) { s.Zones = s.Zones[:zones] })
		for _, name := range []string{"all", "workers", "workers-a", "a"} {
			before := map[string]int64{}
			for count := range int64(50) {
				counts, sum := map[string]int64{}, int64(0)
				for _, part := range s.Divide("payments-x7k2p", pool(name, count, "", "")) {
					counts[part.Name] = part.Count
					sum += part.Count
					if want := count / int64(zones); part.Count < max(want, 1) || part.Count > want+1 {
						t.Errorf("%d nodes in %d zones: %s has %d", count, zones, part.Name, part.Count)
					}
				}
				if sum != count {
					t.Errorf("%d nodes in %d zones: the parts have %d", count, zones, sum)
				}
				// One more node, or one less, changes one zone by one.
				changed := int64(0)
				for part, n := range counts {
					changed += n - before[part]
					if n < before[part] {
						t.Errorf("from %d to %d nodes in %d zones: %s shrinks", count-1, count, zones, part)
					}
				}
				if count > 0 && changed != 1 {
					t.Errorf("from %d to %d nodes in %d zones: %d nodes are made", count-1, count, zones, changed)
				}
				before = counts
			}
		}
	}
}

// Small pools do not all begin in the same zone, and no two pools share the name of a part.
func TestDivideSpreads(t *testing.T) {
	s, first, names := open(t), map[string]bool{}, map[string]bool{}
	for _, name := range []string{"a", "b", "a-a", "a-b", "b-a", "workers", "ingress", "control", "gpu"} {
		for _, part := range s.Divide("payments-x7k2p", pool(name, 3, "", "")) {
			if names[part.Name] {
				t.Errorf("%s exists twice", part.Name)
			}
			names[part.Name] = true
		}
		only := s.Divide("payments-x7k2p", pool(name, 1, "", ""))
		first[only[0].Name[len(only[0].Name)-1:]] = true
	}
	if len(first) != 3 {
		t.Errorf("want pools of one node in every zone, got %v", first)
	}
}
