package cloudinit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// agent is user data as a strategy brings it along.
const agent = `#cloud-config
package_update: true
packages:
- qemu-guest-agent
runcmd:
- [systemctl, enable, --now, qemu-guest-agent.service]
`

func TestMerge(t *testing.T) {
	cases := map[string]struct {
		reason string
		base   string
		over   string
		lists  []string
		want   string
		err    error
	}{
		"Default": {
			reason: "The base stays what it is.",
			base:   agent,
			want: `#cloud-config
package_update: true
packages:
- qemu-guest-agent
runcmd:
- - systemctl
  - enable
  - --now
  - qemu-guest-agent.service
`,
		},
		"OverDefault": {
			reason: "Lists append after the default's, maps are added, scalars replace.",
			base:   agent,
			over: `#cloud-config
package_update: false
packages: [nfs-common]
ntp: {servers: [ntp.example.org]}
runcmd:
- sysctl --system
`,
			want: `#cloud-config
ntp:
  servers:
  - ntp.example.org
package_update: false
packages:
- qemu-guest-agent
- nfs-common
runcmd:
- - systemctl
  - enable
  - --now
  - qemu-guest-agent.service
- sysctl --system
`,
		},
		"MapsMerge": {
			reason: "Maps merge at every depth.",
			base:   "a: {b: {c: 1, d: [1]}, e: 1}",
			over:   "a: {b: {c: 2, d: [2], f: 3}}",
			want:   "#cloud-config\na:\n  b:\n    c: 2\n    d:\n    - 1\n    - 2\n    f: 3\n  e: 1\n",
		},
		"OtherShapesReplace": {
			reason: "What is neither two maps nor two lists replaces, null included.",
			base:   "a: {b: 1}\nc: [1]\nd: 1\ne: [1]",
			over:   "a: [2]\nc: {d: 2}\nd: {e: 2}\ne: null",
			want:   "#cloud-config\na:\n- 2\nc:\n  d: 2\nd:\n  e: 2\ne: null\n",
		},
		"Values": {
			reason: "Large numbers, modes, multi-line text and strings that look like something else stay what they are.",
			over:   "a: 12345678901234567890\nb: 0644\nc: \"yes\"\nd: \"12:30\"\ne: |\n  one\n  --- two\nf: \"0644\"",
			want:   "#cloud-config\na: 12345678901234567890\nb: 420\nc: \"yes\"\nd: \"12:30\"\ne: |\n  one\n  --- two\nf: \"0644\"\n",
		},
		"Indented": {
			reason: "A document may be indented as a whole.",
			over:   "\n#cloud-config\n---\n  a: 1\n  b: 2\n",
			want:   "#cloud-config\na: 1\nb: 2\n",
		},
		"Comment": {
			reason: "A comment is no header.",
			over:   "# installed by the platform team\n---\na: 1",
			want:   "#cloud-config\na: 1\n",
		},
		"WindowsLines": {
			reason: "Line ends of Windows are lines.",
			over:   "#cloud-config\r\na: 1\r\n",
			want:   "#cloud-config\na: 1\n",
		},
		"Empty": {
			reason: "Nothing changes nothing.",
			base:   "a: 1",
			over:   "#cloud-config\n",
			want:   "#cloud-config\na: 1\n",
		},
		"Lists": {
			reason: "What a driver appends to is a list, or left out.",
			over:   "users: [default]\na: 1",
			lists:  []string{"users", "groups"},
			want:   "#cloud-config\na: 1\nusers:\n- default\n",
		},
		"NoList":       {reason: "The driver would fail on it.", over: "groups: docker", lists: []string{"users", "groups"}, err: errNoList},
		"Script":       {reason: "A script is not cloud-config.", over: "#!/bin/sh\nexit 0", err: errHeader},
		"Include":      {reason: "An include is not cloud-config.", over: "#include\nhttps://example.org", err: errHeader},
		"Archive":      {reason: "An archive only begins like cloud-config.", over: "#cloud-config-archive\n- a", err: errHeader},
		"Template":     {reason: "A template is not YAML yet.", over: "## template: jinja\n#cloud-config\na: 1", err: errHeader},
		"Scalar":       {reason: "Text is no map.", over: "hello", err: errNoMap},
		"List":         {reason: "A list is no map.", over: "- a", err: errNoMap},
		"TwoDocuments": {reason: "A second document would be dropped.", over: "a: 1\n---\nb: 2", err: errDocuments},
		"EndAndMore":   {reason: "What follows an end would be dropped.", over: "a: 1\n...\nb: 2", err: errDocuments},
		"Syntax":       {reason: "Broken YAML is refused.", over: "a: [", err: cmpopts.AnyError},
		"Twice":        {reason: "A key that is written twice would lose one.", over: "a: 1\na: 2", err: cmpopts.AnyError},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Merge(tc.base, tc.over, tc.lists...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nMerge(...): -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.err, err, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%s\nMerge(...): -want error, +got error:\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(agent)
	f.Add("packages: [a]\nruncmd:\n- [a, 1, 1.5, true, null]\n")
	f.Add("#cloud-config\n---\na: &x {b: 0644, c: 1e3}\nd: *x\ny: on\n")
	f.Add("a: |\n  x\n\n  y\nb: 12:30:45\nc: 2020-01-01\nd: .5\n")
	f.Add("#!/bin/sh")
	f.Fuzz(func(t *testing.T, over string) {
		first, err := Merge(agent, over)
		if err != nil {
			return
		}
		if !strings.HasPrefix(first, "#cloud-config\n") {
			t.Fatalf("Merge(..., %q): no header in %q", over, first)
		}
		second, err := Merge(agent, over)
		if err != nil || first != second {
			t.Errorf("Merge(..., %q): %q, then %q, %v", over, first, second, err)
		}
		// What was written reads as what was merged.
		written, err := parse(first)
		if err != nil {
			t.Fatalf("parse(%q): %v", first, err)
		}
		merged, err := parse(agent)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := parse(over)
		if err != nil {
			t.Fatal(err)
		}
		mergeMaps(merged, changes)
		if diff := cmp.Diff(merged, written); diff != "" {
			t.Errorf("Merge(..., %q): -merged, +written:\n%s", over, diff)
		}
	})
}
