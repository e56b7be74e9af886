package aws

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/strategytest"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

type change = func(*v1alpha1.AwsBlueprintSpec)

// spec of a minimal blueprint, with changes. Zones and types are in no order.
func spec(changes ...change) v1alpha1.AwsBlueprintSpec {
	s := v1alpha1.AwsBlueprintSpec{
		Region:  "eu-central-1",
		VPCID:   "vpc-0a1b",
		Zones:   []v1alpha1.AwsZone{{Name: "c", SubnetID: "subnet-0c"}, {Name: "a", SubnetID: "subnet-0a"}, {Name: "b", SubnetID: "subnet-0b"}},
		AMI:     "ami-0c2d",
		AMIDisk: "20Gi",
		SSHUser: "ubuntu",
		InstanceTypes: []v1alpha1.AwsInstanceType{
			{Name: "r6i.xlarge", CPU: "4", Memory: "32Gi"},
			{Name: "m6i.xlarge", CPU: "4", Memory: "16Gi"},
			{Name: "m5.xlarge", CPU: "4", Memory: "16Gi"},
			{Name: "c6i.2xlarge", CPU: "8", Memory: "16Gi"},
			{Name: "t3.medium", CPU: "2", Memory: "4Gi"},
		},
		SecurityGroup: v1alpha1.AwsSecurityGroup{Name: "rke2-nodes"},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func open(t testing.TB, changes ...change) *strategy {
	t.Helper()
	opened, err := Open(blueprint(t, spec(changes...)))
	if err != nil {
		t.Fatal(err)
	}
	return opened.(*strategy)
}

func blueprint(t testing.TB, s v1alpha1.AwsBlueprintSpec) json.RawMessage {
	t.Helper()
	b := v1alpha1.AwsBlueprint{Spec: s}
	b.Name = "fra1"
	return strategytest.Encode(t, b)
}

func TestOpenRefusals(t *testing.T) {
	rules := func(rules ...v1alpha1.AwsSecurityGroupRule) change {
		return func(s *v1alpha1.AwsBlueprintSpec) {
			s.SecurityGroup = v1alpha1.AwsSecurityGroup{Manage: true, Rules: rules}
		}
	}
	cases := map[string]struct {
		reason string
		change change
		want   string
	}{
		"Region": {
			"A zone is no region.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.Region = "eu-central-1a" },
			`spec.region: Invalid value: "eu-central-1a": must be a region, such as eu-central-1`,
		},
		"VPC": {
			"Networks go by id.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.VPCID = "subnet-0a" },
			`spec.vpcID: Invalid value: "subnet-0a": must be an id, such as vpc-0a1b2c3d`,
		},
		"AMI": {
			"Images go by id.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.AMI = "" },
			`spec.ami: Invalid value: "": must be an id, such as ami-0a1b2c3d`,
		},
		"NoZones": {
			"A node is somewhere.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.Zones = nil },
			`spec.zones: Required value: nodes need at least one zone`,
		},
		"ZoneWithRegion": {
			"The driver puts the region before the letter.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.Zones[1].Name = "eu-central-1a" },
			`spec.zones[1].name: Invalid value: "eu-central-1a": must be the letter of a zone of the region, such as a`,
		},
		"ZoneTwice": {
			"The name of a part would not be unique.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.Zones[2].Name = "c" },
			`spec.zones[2].name: Duplicate value: "c"`,
		},
		"Subnet": {
			"Subnets go by id.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.Zones[0].SubnetID = "vpc-1" },
			`spec.zones[0].subnetID: Invalid value: "vpc-1": must be an id, such as subnet-0a1b2c3d`,
		},
		"NoTypes": {
			"A node is of some type.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.InstanceTypes = nil },
			`spec.instanceTypes: Required value: nodes need at least one instance type`,
		},
		"TypeName": {
			"A family alone is no type.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.InstanceTypes[0].Name = "m6i" },
			`spec.instanceTypes[0].name: Invalid value: "m6i": must be an instance type, such as m6i.xlarge`,
		},
		"TypeTwice": {
			"A type has one size.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.InstanceTypes[1].Name = "r6i.xlarge" },
			`spec.instanceTypes[1].name: Duplicate value: "r6i.xlarge"`,
		},
		"TypeCPU": {
			"A type has whole cpus.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.InstanceTypes[1].CPU = "3500m" },
			`spec.instanceTypes[1].cpu: Invalid value: "3500m": EC2 builds whole vCPUs, at least one: use 4`,
		},
		"TypeMemory": {
			"A type has memory.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.InstanceTypes[1].Memory = "" },
			`spec.instanceTypes[1].memory: Required value: must be a Kubernetes quantity in whole bytes, such as 16Gi`,
		},
		"SSHUser": {
			"Rancher logs in as somebody.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.SSHUser = "" },
			`spec.sshUser: Required value: name the user of the image, such as ubuntu`,
		},
		"VolumeType": {
			"Others need more than a size.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.VolumeType = "io2" },
			`spec.volumeType: Unsupported value: "io2": supported values: "gp2", "gp3"`,
		},
		"HTTPTokens": {
			"The driver knows two words.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.HTTPTokens = "yes" },
			`spec.httpTokens: Unsupported value: "yes": supported values: "optional", "required"`,
		},
		"NoSecurityGroup": {
			"The driver's own group is open to everybody.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.SecurityGroup.Name = "" },
			`spec.securityGroup.name: Required value: say either name or manage`,
		},
		"TwoSecurityGroups": {
			"It is this one or that one.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.SecurityGroup.Manage = true },
			`spec.securityGroup.name: Required value: say either name or manage`,
		},
		"RulesOfOthers": {
			"A group that exists is not ours.",
			func(s *v1alpha1.AwsBlueprintSpec) {
				s.SecurityGroup.Rules = []v1alpha1.AwsSecurityGroupRule{{Protocol: "tcp", FromPort: 22}}
			},
			`spec.securityGroup.rules: Forbidden: rules need manage: nothing is added to a group that exists`,
		},
		"RuleProtocol": {
			"Ports are of TCP and UDP.",
			rules(v1alpha1.AwsSecurityGroupRule{Protocol: "icmp", FromPort: 8}),
			`spec.securityGroup.rules[0].protocol: Unsupported value: "icmp": supported values: "tcp", "udp"`,
		},
		"RuleBackwards": {
			"A range has a first port and a last one.",
			rules(v1alpha1.AwsSecurityGroupRule{Protocol: "tcp", FromPort: 80, ToPort: 70000}),
			`spec.securityGroup.rules[0].fromPort: Invalid value: 80: must be at least 1 and at most toPort, which is at most 65535`,
		},
		"RuleAddress": {
			"A range of addresses begins with its first one.",
			rules(v1alpha1.AwsSecurityGroupRule{Protocol: "tcp", FromPort: 22, CIDR: "10.0.0.1/8"}),
			`spec.securityGroup.rules[0].cidr: Invalid value: "10.0.0.1/8": must be a range of IPv4 addresses, such as 10.0.0.0/8`,
		},
		"RuleTwice": {
			"AWS refuses a rule that is there.",
			rules(v1alpha1.AwsSecurityGroupRule{Protocol: "tcp", FromPort: 22}, v1alpha1.AwsSecurityGroupRule{Protocol: "tcp", FromPort: 22, ToPort: 22}),
			`spec.securityGroup.rules[1]: Duplicate value: "tcp22"`,
		},
		"RuleOfRKE2": {
			"AWS refuses a rule that is there.",
			rules(v1alpha1.AwsSecurityGroupRule{Protocol: "tcp", FromPort: 2379, ToPort: 2381}),
			`spec.securityGroup.rules[0]: Duplicate value: "tcp2379to2381"`,
		},
		"Profiles": {
			"It is ours or yours.",
			func(s *v1alpha1.AwsBlueprintSpec) {
				s.InstanceProfiles = v1alpha1.AwsInstanceProfiles{Manage: true, Worker: "a"}
			},
			`spec.instanceProfiles.manage: Forbidden: say either manage or controlPlane and worker`,
		},
		"CloudProvider": {
			"A chart is somewhere, and has a version.",
			func(s *v1alpha1.AwsBlueprintSpec) {
				s.CloudProvider = &v1alpha1.AwsCloudProvider{Repository: "https://charts.example.org"}
			},
			`spec.cloudProvider: Required value: say the repository, https://…, and the version of the chart aws-cloud-controller-manager`,
		},
		"CloudInit": {
			"A script cannot be checked, and its text may hold passwords.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.CloudInit = "#!/bin/sh\necho hunter2" },
			`spec.cloudInit: Invalid value: must be cloud-config YAML: the only header allowed is #cloud-config`,
		},
		"AMIDisk": {
			"A volume has whole GiB.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.AMIDisk = "20G" },
			`spec.amiDisk: Invalid value: "20G": EC2 builds whole GiB, at least one: use 19Gi`,
		},
		"DefaultDisk": {
			"A default below the image is found before a pool needs it.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.NodeDefaults.Disk = "10Gi" },
			`spec.nodeDefaults.disk: Invalid value: "10Gi": the image's disk is larger, and EC2 refuses it: use at least 20Gi`,
		},
		"DefaultSize": {
			"A default that no type has is found before a pool needs it.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.NodeDefaults.CPU = "16" },
			`spec.nodeDefaults.cpu: Invalid value: "16": no instance type of the AwsBlueprint has as much: use at most 8`,
		},
		"Several": {
			"Everything is said at once.",
			func(s *v1alpha1.AwsBlueprintSpec) { s.SSHUser, s.Zones = "", nil },
			`[spec.zones: Required value: nodes need at least one zone, spec.sshUser: Required value: name the user of the image, such as ubuntu]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Open(blueprint(t, spec(tc.change)))
			if err == nil {
				t.Fatalf("%s\nOpen(...): want an error", tc.reason)
			}
			if got, want := err.Error(), "cannot use the AwsBlueprint fra1: "+tc.want; got != want {
				t.Errorf("%s\nOpen(...):\ngot  %s\nwant %s", tc.reason, got, want)
			}
		})
	}
}

func TestNode(t *testing.T) {
	path := field.NewPath("spec", "pools").Index(0)
	node := func(name string, cpu, memory, disk int64) strategies.Node {
		r := ledger.Resources{cpu * 1000, memory, disk, 1}
		return strategies.Node{Size: r, Footprint: r, Type: name}
	}
	cases := map[string]struct {
		reason string
		pool   v1alpha1.Pool
		want   strategies.Node
		errs   field.ErrorList
	}{
		"Exact":    {reason: "A type that fits exactly; of two alike the first by name.", pool: v1alpha1.Pool{CPU: "4", Memory: "16Gi", Disk: "100Gi"}, want: node("m5.xlarge", 4, 16*gib, 100*gib)},
		"Smallest": {reason: "The footprint is what the type has, not what was asked for.", pool: v1alpha1.Pool{CPU: "1", Memory: "1Gi"}, want: node("t3.medium", 2, 4*gib, 20*gib)},
		"Memory":   {reason: "More memory with the same cpus before more cpus.", pool: v1alpha1.Pool{CPU: "2", Memory: "17Gi"}, want: node("r6i.xlarge", 4, 32*gib, 20*gib)},
		"CPU":      {reason: "More cpus.", pool: v1alpha1.Pool{CPU: "5", Memory: "1Mi"}, want: node("c6i.2xlarge", 8, 16*gib, 20*gib)},
		"Defaults": {reason: "Nobody said anything: a disk is as large as the image's.", want: node("m5.xlarge", 4, 16*gib, 20*gib)},
		"TooManyCPUs": {
			reason: "No type has as many.", pool: v1alpha1.Pool{CPU: "9"},
			errs: field.ErrorList{field.Invalid(path.Child("cpu"), "9", "no instance type of the AwsBlueprint has as much: use at most 8")},
		},
		"TooMuchOfBoth": {
			reason: "Both are named.", pool: v1alpha1.Pool{CPU: "9", Memory: "33Gi"},
			errs: field.ErrorList{
				field.Invalid(path.Child("cpu"), "9", "no instance type of the AwsBlueprint has as much: use at most 8"),
				field.Invalid(path.Child("memory"), "33Gi", "no instance type of the AwsBlueprint has as much: use at most 32Gi"),
			},
		},
		"NotTogether": {
			reason: "One type has the cpus and another the memory.", pool: v1alpha1.Pool{CPU: "8", Memory: "32Gi"},
			errs: field.ErrorList{field.Invalid(path.Child("memory"), "32Gi", "no instance type of the AwsBlueprint has as much with 8 cpus")},
		},
		"SmallDisk": {
			reason: "EC2 refuses a volume below its snapshot.", pool: v1alpha1.Pool{Disk: "19Gi"},
			errs: field.ErrorList{field.Invalid(path.Child("disk"), "19Gi", "the image's disk is larger, and EC2 refuses it: use at least 20Gi")},
		},
		"Everything": {
			reason: "Everything is said at once.", pool: v1alpha1.Pool{CPU: "9", Disk: "19Gi"},
			errs: field.ErrorList{
				field.Invalid(path.Child("disk"), "19Gi", "the image's disk is larger, and EC2 refuses it: use at least 20Gi"),
				field.Invalid(path.Child("cpu"), "9", "no instance type of the AwsBlueprint has as much: use at most 8"),
			},
		},
		"NotWhole": {
			reason: "A volume has whole GiB.", pool: v1alpha1.Pool{Disk: "40.5Gi"},
			errs: field.ErrorList{field.Invalid(path.Child("disk"), "40.5Gi", "EC2 builds whole GiB, at least one: use 41Gi")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := open(t).Node(path, tc.pool)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nNode(...): -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.errs, errs); diff != "" {
				t.Errorf("%s\nNode(...): -want errors, +got errors:\n%s", tc.reason, diff)
			}
		})
	}
}

// The choice does not depend on the order in which the types are written.
func TestNodeIgnoresOrder(t *testing.T) {
	want, errs := open(t).Node(nil, v1alpha1.Pool{CPU: "3", Memory: "6Gi"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	types := spec().InstanceTypes
	for i := range types {
		got, errs := open(t, func(s *v1alpha1.AwsBlueprintSpec) {
			s.InstanceTypes = append(append([]v1alpha1.AwsInstanceType{}, types[i:]...), types[:i]...)
		}).Node(nil, v1alpha1.Pool{CPU: "3", Memory: "6Gi"})
		if diff := cmp.Diff(want, got); diff != "" || len(errs) > 0 {
			t.Errorf("Node(...) with the types from %d on: %v, -want, +got:\n%s", i, errs, diff)
		}
	}
}
