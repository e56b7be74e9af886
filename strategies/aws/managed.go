package aws

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

const (
	ec2API = "ec2.aws.upbound.io/v1beta1"
	iamAPI = "iam.aws.upbound.io/v1beta1"

	controlPlane = "controlplane"
	worker       = "worker"

	// maxRoleName is IAM's limit for the name of a role. Instance profiles take more.
	maxRoleName = 64

	// assumeRole lets EC2 instances take a role.
	assumeRole = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"ec2.amazonaws.com"}}]}`
)

// Rights of nodes, as Rancher documents them for the Amazon cloud provider.
var (
	//go:embed control-plane-policy.json
	controlPlanePolicy string
	//go:embed worker-policy.json
	workerPolicy string
)

// nodeRules are the ports on which the nodes of a cluster reach each other (https://docs.rke2.io/install/requirements,
// inbound network rules): RKE2's own, and those of its default network plugin.
func nodeRules() []v1alpha1.AwsSecurityGroupRule {
	return []v1alpha1.AwsSecurityGroupRule{
		{Protocol: "tcp", FromPort: 6443},                 // Kubernetes API
		{Protocol: "tcp", FromPort: 9345},                 // RKE2 supervisor
		{Protocol: "tcp", FromPort: 10250},                // kubelet
		{Protocol: "tcp", FromPort: 2379, ToPort: 2381},   // etcd: clients, peers, metrics
		{Protocol: "tcp", FromPort: 30000, ToPort: 32767}, // node ports
		{Protocol: "udp", FromPort: 8472},                 // Canal, VXLAN
		{Protocol: "tcp", FromPort: 9099},                 // Canal, health
		{Protocol: "udp", FromPort: 51820, ToPort: 51821}, // Canal, WireGuard
	}
}

func lastPort(rule v1alpha1.AwsSecurityGroupRule) int64 { return max(rule.ToPort, rule.FromPort) }

// ruleName says what a rule lets in, as the suffix of an object's name.
func ruleName(rule v1alpha1.AwsSecurityGroupRule) string {
	name := fmt.Sprintf("%s%d", rule.Protocol, rule.FromPort)
	if last := lastPort(rule); last > rule.FromPort {
		name += fmt.Sprintf("to%d", last)
	}
	if rule.CIDR != "" {
		name += "from" + strings.NewReplacer(".", "x", "/", "s").Replace(rule.CIDR)
	}
	return name
}

func profileName(cluster, role string) string {
	return strategies.Shorten(cluster+"-"+role, maxRoleName)
}

// managed returns the security group and the instance profiles of a cluster, as far as the blueprint wants them managed:
// kinds of the AWS providers, which refer to each other by name.
func (s *strategy) managed(scope strategies.Scope) (map[string]strategies.Resource, error) {
	resources := map[string]strategies.Resource{}
	if !s.spec.SecurityGroup.Manage && !s.spec.InstanceProfiles.Manage {
		return resources, nil
	}
	config, missing := strategies.InfrastructureProviderConfig(scope.Infra, "the AWS providers that makes security groups and instance profiles")
	if missing != nil {
		return nil, missing
	}
	add := func(suffix, apiVersion, kind string, metadata, parameters map[string]any) {
		resources[suffix] = strategies.Resource{
			"apiVersion": apiVersion,
			"kind":       kind,
			"metadata":   metadata,
			"spec":       map[string]any{"providerConfigRef": map[string]any{"name": config}, "forProvider": parameters},
		}
	}
	if s.spec.SecurityGroup.Manage {
		s.addSecurityGroup(scope, add)
	}
	if s.spec.InstanceProfiles.Manage {
		addProfile(scope, controlPlane, controlPlanePolicy, add)
		addProfile(scope, worker, workerPolicy, add)
	}
	return resources, nil
}

// addResource adds a managed resource by the suffix of its name.
type addResource func(suffix, apiVersion, kind string, metadata, parameters map[string]any)

// addSecurityGroup adds a security group and its rules, whose external names are ids.
func (s *strategy) addSecurityGroup(scope strategies.Scope, add addResource) {
	reference := func(suffix string) map[string]any {
		return map[string]any{"name": strategies.ObjectName(scope.Cluster, suffix)}
	}
	ec2 := func(suffix, kind string, parameters map[string]any) {
		parameters["region"] = s.spec.Region
		add(suffix, ec2API, kind, strategies.UnnamedMetadata(strategies.ObjectName(scope.Cluster, suffix), scope.Labels), parameters)
	}
	const group = "securitygroup"
	ec2(group, "SecurityGroup", map[string]any{
		"name":        s.securityGroup(scope.Cluster),
		"description": "Nodes of cluster " + scope.Cluster,
		"vpcId":       s.spec.VPCID,
		"tags":        map[string]any{clusterTag(scope.Cluster): "owned"},
	})
	ec2("egress", "SecurityGroupEgressRule", map[string]any{
		"securityGroupIdRef": reference(group), "ipProtocol": "-1", "cidrIpv4": "0.0.0.0/0",
	})
	for _, rule := range append(nodeRules(), s.spec.SecurityGroup.Rules...) {
		parameters := map[string]any{
			"securityGroupIdRef": reference(group), "ipProtocol": rule.Protocol, "fromPort": rule.FromPort, "toPort": lastPort(rule),
		}
		if rule.CIDR != "" {
			parameters["cidrIpv4"] = rule.CIDR
		} else {
			parameters["referencedSecurityGroupIdRef"] = reference(group)
		}
		ec2(ruleName(rule), "SecurityGroupIngressRule", parameters)
	}
}

// addProfile adds an instance profile, its role and what the role may do. Role and profile have the name that the machine
// configs say.
func addProfile(scope strategies.Scope, role, policy string, add addResource) {
	iam := func(suffix, kind string, parameters map[string]any) {
		annotations := map[string]string{v1alpha1.AnnotationExternalName: profileName(scope.Cluster, role)}
		add(suffix, iamAPI, kind, strategies.Metadata(strategies.ObjectName(scope.Cluster, suffix), scope.Labels, annotations), parameters)
	}
	reference := map[string]any{"name": strategies.ObjectName(scope.Cluster, role+"role")}
	iam(role+"role", "Role", map[string]any{"assumeRolePolicy": assumeRole})
	iam(role+"policy", "RolePolicy", map[string]any{"roleRef": reference, "policy": policy})
	iam(role+"profile", "InstanceProfile", map[string]any{"roleRef": reference})
}
