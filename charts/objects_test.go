package charts

// The objects the chart renders, written from the documented fields of
// Rancher's APIs. Decoding is strict, so a field that is not listed here fails.

type objectMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// TypeMeta is exported because go-cmp reads exported fields only.
type TypeMeta struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   objectMeta `json:"metadata"`
}

type secret struct {
	TypeMeta `json:",inline"`
	Type     string            `json:"type"`
	Data     map[string][]byte `json:"data"`
}

type cluster struct {
	TypeMeta `json:",inline"`
	Spec     clusterSpec `json:"spec"`
}

type clusterSpec struct {
	KubernetesVersion                                    string             `json:"kubernetesVersion"`
	CloudCredentialSecretName                            *string            `json:"cloudCredentialSecretName,omitempty"`
	EnableNetworkPolicy                                  *bool              `json:"enableNetworkPolicy,omitempty"`
	DefaultPodSecurityAdmissionConfigurationTemplateName *string            `json:"defaultPodSecurityAdmissionConfigurationTemplateName,omitempty"`
	LocalClusterAuthEndpoint                             *localAuthEndpoint `json:"localClusterAuthEndpoint,omitempty"`
	AgentEnvVars                                         []envVar           `json:"agentEnvVars,omitempty"`
	RKEConfig                                            rkeConfig          `json:"rkeConfig"`
}

type localAuthEndpoint struct {
	Enabled *bool   `json:"enabled,omitempty"`
	FQDN    *string `json:"fqdn,omitempty"`
	CACerts *string `json:"caCerts,omitempty"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type rkeConfig struct {
	MachineGlobalConfig   map[string]any  `json:"machineGlobalConfig,omitempty"`
	MachineSelectorConfig []selectorEntry `json:"machineSelectorConfig,omitempty"`
	ChartValues           map[string]any  `json:"chartValues,omitempty"`
	AdditionalManifest    *string         `json:"additionalManifest,omitempty"`
	Registries            *registries     `json:"registries,omitempty"`
	UpgradeStrategy       upgradeStrategy `json:"upgradeStrategy"`
	ETCD                  etcd            `json:"etcd"`
	MachinePools          []machinePool   `json:"machinePools"`
}

type selectorEntry struct {
	Config               map[string]any `json:"config"`
	MachineLabelSelector *struct {
		MatchLabels map[string]string `json:"matchLabels,omitempty"`
	} `json:"machineLabelSelector,omitempty"`
}

type registries struct {
	Mirrors map[string]mirror         `json:"mirrors,omitempty"`
	Configs map[string]registryConfig `json:"configs,omitempty"`
}

type mirror struct {
	Endpoint []string          `json:"endpoint,omitempty"`
	Rewrite  map[string]string `json:"rewrite,omitempty"`
}

type registryConfig struct {
	AuthConfigSecretName *string `json:"authConfigSecretName,omitempty"`
	TLSSecretName        *string `json:"tlsSecretName,omitempty"`
	CABundle             []byte  `json:"caBundle,omitempty"`
	InsecureSkipVerify   *bool   `json:"insecureSkipVerify,omitempty"`
}

type upgradeStrategy struct {
	ControlPlaneConcurrency  *string       `json:"controlPlaneConcurrency,omitempty"`
	WorkerConcurrency        *string       `json:"workerConcurrency,omitempty"`
	ControlPlaneDrainOptions *drainOptions `json:"controlPlaneDrainOptions,omitempty"`
	WorkerDrainOptions       *drainOptions `json:"workerDrainOptions,omitempty"`
}

type drainOptions struct {
	Enabled            *bool `json:"enabled,omitempty"`
	Force              *bool `json:"force,omitempty"`
	IgnoreDaemonSets   *bool `json:"ignoreDaemonSets,omitempty"`
	DeleteEmptyDirData *bool `json:"deleteEmptyDirData,omitempty"`
	GracePeriod        *int  `json:"gracePeriod,omitempty"`
	Timeout            *int  `json:"timeout,omitempty"`
}

type etcd struct {
	DisableSnapshots     *bool   `json:"disableSnapshots,omitempty"`
	SnapshotScheduleCron *string `json:"snapshotScheduleCron,omitempty"`
	SnapshotRetention    *int    `json:"snapshotRetention,omitempty"`
	S3                   *etcdS3 `json:"s3,omitempty"`
}

type etcdS3 struct {
	Bucket              *string `json:"bucket,omitempty"`
	Region              *string `json:"region,omitempty"`
	Endpoint            *string `json:"endpoint,omitempty"`
	Folder              *string `json:"folder,omitempty"`
	Retention           *int    `json:"retention,omitempty"`
	CloudCredentialName *string `json:"cloudCredentialName,omitempty"`
}

type machinePool struct {
	Name                     string            `json:"name"`
	Quantity                 *int32            `json:"quantity"`
	EtcdRole                 *bool             `json:"etcdRole,omitempty"`
	ControlPlaneRole         *bool             `json:"controlPlaneRole,omitempty"`
	WorkerRole               *bool             `json:"workerRole,omitempty"`
	MachineConfigRef         machineConfigRef  `json:"machineConfigRef"`
	Labels                   map[string]string `json:"labels,omitempty"`
	Taints                   []taint           `json:"taints,omitempty"`
	RollingUpdate            *rollingUpdate    `json:"rollingUpdate,omitempty"`
	DrainBeforeDelete        *bool             `json:"drainBeforeDelete,omitempty"`
	DrainBeforeDeleteTimeout *string           `json:"drainBeforeDeleteTimeout,omitempty"`
	UnhealthyNodeTimeout     *string           `json:"unhealthyNodeTimeout,omitempty"`
	NodeStartupTimeout       *string           `json:"nodeStartupTimeout,omitempty"`
	MaxUnhealthy             *string           `json:"maxUnhealthy,omitempty"`
	UnhealthyRange           *string           `json:"unhealthyRange,omitempty"`
	HostnameLengthLimit      *int              `json:"hostnameLengthLimit,omitempty"`
}

type machineConfigRef struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

type taint struct {
	Key    string  `json:"key"`
	Value  *string `json:"value,omitempty"`
	Effect string  `json:"effect"`
}

// Rancher takes an int or a percentage; a number decodes to float64.
type rollingUpdate struct {
	MaxSurge       any `json:"maxSurge,omitempty"`
	MaxUnavailable any `json:"maxUnavailable,omitempty"`
}

type harvesterConfig struct {
	TypeMeta           `json:",inline"`
	VMNamespace        string  `json:"vmNamespace"`
	CPUCount           string  `json:"cpuCount"`
	CPUModel           *string `json:"cpuModel,omitempty"`
	MemorySize         string  `json:"memorySize"`
	ReservedMemorySize *string `json:"reservedMemorySize,omitempty"`
	DiskInfo           string  `json:"diskInfo"`
	NetworkInfo        string  `json:"networkInfo"`
	SSHUser            *string `json:"sshUser,omitempty"`
	UserData           *string `json:"userData,omitempty"`
	VMAffinity         *string `json:"vmAffinity,omitempty"`
	EnableEFI          *bool   `json:"enableEfi,omitempty"`
}

type vmwarevsphereConfig struct {
	TypeMeta     `json:",inline"`
	VCenter      *string  `json:"vcenter,omitempty"`
	Datacenter   *string  `json:"datacenter,omitempty"`
	Datastore    *string  `json:"datastore,omitempty"`
	Folder       *string  `json:"folder,omitempty"`
	Pool         *string  `json:"pool,omitempty"`
	Network      []string `json:"network,omitempty"`
	CPUCount     string   `json:"cpuCount"`
	MemorySize   string   `json:"memorySize"`
	DiskSize     string   `json:"diskSize"`
	CreationType *string  `json:"creationType,omitempty"`
	CloneFrom    *string  `json:"cloneFrom,omitempty"`
	CloudConfig  *string  `json:"cloudConfig,omitempty"`
	CfgParam     []string `json:"cfgparam,omitempty"`
}

type amazonec2Config struct {
	TypeMeta              `json:",inline"`
	Region                string   `json:"region"`
	Zone                  string   `json:"zone"`
	VPCID                 string   `json:"vpcId"`
	SubnetID              *string  `json:"subnetId,omitempty"`
	AMI                   string   `json:"ami"`
	InstanceType          string   `json:"instanceType"`
	RootSize              string   `json:"rootSize"`
	VolumeType            *string  `json:"volumeType,omitempty"`
	EncryptEBSVolume      *bool    `json:"encryptEbsVolume,omitempty"`
	SecurityGroup         []string `json:"securityGroup,omitempty"`
	SecurityGroupReadonly *bool    `json:"securityGroupReadonly,omitempty"`
	IAMInstanceProfile    *string  `json:"iamInstanceProfile,omitempty"`
	SSHUser               *string  `json:"sshUser,omitempty"`
	Tags                  *string  `json:"tags,omitempty"`
	UserData              *string  `json:"userdata,omitempty"`
	PrivateAddressOnly    *bool    `json:"privateAddressOnly,omitempty"`
	HTTPTokens            *string  `json:"httpTokens,omitempty"`
}

type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server                   string `json:"server"`
		CertificateAuthorityData []byte `json:"certificate-authority-data,omitempty"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Token string `json:"token"`
	} `json:"user"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster   string `json:"cluster"`
		User      string `json:"user"`
		Namespace string `json:"namespace"`
	} `json:"context"`
}
