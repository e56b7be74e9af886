package stack

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
)

func TestCommandsOf(t *testing.T) {
	const guide = "# Guide\n\n## 1. First\n\nText.\n\n```\none # not a heading\n# two\n```\n\nMore.\n\n```sh\nthree\n```\n\n### Inner\n\n```\nfour\n```\n\n## 2. Second\n\nNothing.\n"
	cases := map[string]struct {
		reason  string
		section string
		want    string
		err     string
	}{
		"Blocks":    {reason: "All code up to the next heading, comments included.", section: "1. First", want: "one # not a heading\n# two\nthree"},
		"Level":     {reason: "Headings of any level.", section: "Inner", want: "four"},
		"NoCode":    {reason: "Running nothing would prove nothing.", section: "2. Second", err: `there are no commands below a heading "2. Second"`},
		"NoHeading": {reason: "Nor would the commands of nowhere.", section: "First", err: `there are no commands below a heading "First"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := commandsOf(guide, tc.section)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.err}, []string{got, message}); diff != "" {
				t.Errorf("%s\ncommandsOf(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestInstallGuide: what the end-to-end tests run names the versions that they publish, and the registry that they replace.
func TestInstallGuide(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := os.ReadFile(filepath.Join(root, "examples", "install", "configuration.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	version, err := Version()
	if err != nil {
		t.Fatal(err)
	}
	next := "v" + semver.MustParse(version).IncPatch().String()
	packages := regexp.MustCompile(`(\S+)/(function-rig|configuration-rig):([\w.-]+)`)
	got := map[string]map[string]bool{}
	for _, section := range []string{"1. The Configuration", "Upgrade", "Roll back"} {
		script, err := commandsOf(string(guide), section)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(script, "configuration.yaml") {
			script += string(configuration)
		}
		got[section] = map[string]bool{}
		for _, found := range packages.FindAllStringSubmatch(script, -1) {
			if !strings.HasSuffix(found[1], exampleRegistry+"/"+packagesPath) {
				t.Errorf("%s: a package in %s", section, found[1])
			}
			got[section][found[2]+" "+found[3]] = true
		}
	}
	want := map[string]map[string]bool{
		"1. The Configuration": {"configuration-rig " + version: true},
		"Upgrade":              {"configuration-rig " + next: true, "function-rig " + next: true},
		"Roll back":            {"configuration-rig " + version: true, "function-rig " + version: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages in docs/install.md: -want, +got:\n%s", diff)
	}

	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	short, err := commandsOf(string(readme), "Install")
	if err != nil {
		t.Fatal(err)
	}
	long, err := commandsOf(string(guide), "1. The Configuration")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(long, short); diff != "" {
		t.Errorf("README.md installs otherwise than docs/install.md: -docs, +README:\n%s", diff)
	}
}

// TestPackagedComponents are those of a stack without packages, in another order.
func TestPackagedComponents(t *testing.T) {
	s := numbered(t)
	names := func() []string {
		var out []string
		for _, c := range s.components() {
			out = append(out, c.name)
		}
		return out
	}
	direct := names()
	s.options.Packages = true
	packaged := names()
	if diff := cmp.Diff(slices.Sorted(slices.Values(direct)), slices.Sorted(slices.Values(packaged))); diff != "" {
		t.Errorf("components: -direct, +packaged:\n%s", diff)
	}
	if last := packaged[len(packaged)-2:]; !slices.Equal(last, []string{ProviderHelm, ProviderKubernetes}) {
		t.Errorf("the last components are %v: providers can start only when Crossplane runs", last)
	}
}

// TestFunctionAddress of the stack's own version, of one beside it, and of none.
func TestFunctionAddress(t *testing.T) {
	s := numbered(t)
	version, err := Version()
	if err != nil {
		t.Fatal(err)
	}
	s.functions = map[string]string{s.FunctionImage("v9.9.9"): "127.0.0.1:1"}
	got := map[string]string{}
	for _, version := range []string{version, "v9.9.9", "v9.9.8"} {
		address, err := s.functionAddress(s.FunctionImage(version))
		got[version] = address
		if err != nil {
			got[version] = err.Error()
		}
	}
	want := map[string]string{
		version: s.ports.address("function"), "v9.9.9": "127.0.0.1:1", "v9.9.8": "nobody runs " + s.FunctionImage("v9.9.8"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses: -want, +got:\n%s", diff)
	}
}

// TestLoadAuthority: certificates of one that was read again are trusted as those that it issued before.
func TestLoadAuthority(t *testing.T) {
	dir := t.TempDir()
	first, err := newAuthority(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	issued, _, err := again.issue("somebody")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(issued)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first.pem)
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("not trusted: %v", err)
	}
	if string(again.pem) != string(first.pem) {
		t.Error("kubeconfigs would name another authority")
	}
	if _, err := loadAuthority(t.TempDir()); err == nil {
		t.Error("an authority was read out of nothing")
	}
}
