package stack

import (
	"os"
	"path/filepath"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
)

// Namespace of Crossplane, and of the connection secrets of what it composes.
const Namespace = "crossplane-system"

// Admin may do everything, on either API server.
const Admin = "admin"

// Platform is the user of the platform team.
const Platform = "platform"

const (
	controllerManagerUser = "kube-controller-manager"
	crossplaneUser        = "crossplane"
	rbacManagerUser       = "rbac-manager"

	// Users of Rancher's and Harvester's API.
	rancherUser   = "rig-rancher"
	harvesterUser = "rig-harvester"
)

// functions is the trust domain of Crossplane and its functions.
const functions side = "functions"

// Teams are app teams. Each has a namespace and a user of its name, and may there do what examples/rbac/app-team.yaml
// says.
func Teams() []string { return []string{"team-a", "team-b", "team-payments"} }

// certify makes the three trust domains and the kubeconfigs of their users.
func (s *Stack) certify() error {
	users := map[side]map[string][]string{
		control: {
			Admin: {Admin, "system:masters"}, Platform: {Platform, "platform-team"},
			controllerManagerUser: {"system:kube-controller-manager"},
		},
		infra: {
			Admin:                 {Admin, "system:masters"},
			controllerManagerUser: {"system:kube-controller-manager"}, rancherUser: {rancherUser}, harvesterUser: {harvesterUser},
		},
		functions: {},
	}
	// Certificates with the names of ServiceAccounts: RBAC cannot tell them from their tokens.
	for _, account := range []string{crossplaneUser, rbacManagerUser, ProviderHelm, ProviderKubernetes} {
		users[control][account] = append([]string{serviceAccountUser(account)}, serviceAccountGroups()...)
	}
	for _, team := range Teams() {
		users[control][team] = []string{team, team}
	}
	for of, named := range users {
		ca, err := newAuthority(s.pki(of), "rig-"+string(of))
		if err != nil {
			return err
		}
		if err := ca.issueFiles(s.pki(of), "rig-"+string(of)); err != nil {
			return err
		}
		if err := writeKey(filepath.Join(s.pki(of), "sa.key")); err != nil {
			return err
		}
		for user, names := range named {
			if err := ca.kubeconfig(s.kubeconfig(of, user), s.server(of), names[0], names[1:]...); err != nil {
				return err
			}
		}
	}
	return nil
}

// serviceAccountUser is how Kubernetes calls a ServiceAccount of Crossplane's namespace.
func serviceAccountUser(name string) string { return "system:serviceaccount:" + Namespace + ":" + name }

func serviceAccountGroups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace}
}

// kubeconfig file of a user.
func (s *Stack) kubeconfig(of side, user string) string {
	return filepath.Join(s.Dir, "kubeconfig", string(of), user)
}

// Kubeconfig file of a user of the control plane.
func (s *Stack) Kubeconfig(user string) string { return s.kubeconfig(control, user) }

// Client of the control plane as one of its users: Admin, Platform or a team.
func (s *Stack) Client(user string) (*kube.Client, error) { return s.client(control, user) }

// InfraClient of the API server that stands in for Rancher and Harvester, as its administrator.
func (s *Stack) InfraClient() (*kube.Client, error) { return s.client(infra, Admin) }

// client of an API server. Each is made once, for what it has learnt of the server's resources.
func (s *Stack) client(of side, user string) (*kube.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := s.kubeconfig(of, user)
	if known, ok := s.clients[path]; ok {
		return known, nil
	}
	client, err := kube.New(path)
	if err != nil {
		return nil, err
	}
	s.clients[path] = client
	return client, nil
}

// readKubeconfig of a user of the infrastructure, for the Secret of a ProviderConfig.
func (s *Stack) readKubeconfig(user string) (string, error) {
	raw, err := os.ReadFile(s.kubeconfig(infra, user))
	return string(raw), err
}
