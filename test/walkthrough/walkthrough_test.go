// Package walkthrough follows the guides to the letter.
package walkthrough

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// step of a guide: a fence that makes or changes a file, or runs commands.
type step struct {
	line     int
	language string
	file     string
	text     string
}

// fence opens with its indentation, and what it is.
var fence = regexp.MustCompile("^( *)```([a-z]+)(?: file=(\\S+))?$")

// steps of a guide, in order. Fences that are neither commands nor name a file only show something.
func steps(guide string) ([]step, error) {
	var out []step
	var open *step
	indent := ""
	for i, line := range strings.Split(guide, "\n") {
		text := strings.TrimPrefix(line, indent)
		switch start := fence.FindStringSubmatch(line); {
		case open == nil && start != nil:
			indent, open = start[1], &step{line: i + 1, language: start[2], file: start[3]}
		case open == nil && strings.HasPrefix(strings.TrimSpace(line), "```"):
			return nil, fmt.Errorf("line %d: cannot read fence %q", i+1, line)
		case open != nil && text == "```":
			if open.file != "" || open.language == "sh" {
				out = append(out, *open)
			}
			indent, open = "", nil
		case open != nil:
			open.text += text + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the fence does not end", open.line)
	}
	return out, nil
}

// patch a text. What a diff keeps and removes must be there exactly once.
func patch(text, diff string) (string, error) {
	before, after := &strings.Builder{}, &strings.Builder{}
	for line := range strings.Lines(diff) {
		switch line[0] {
		case '-':
			before.WriteString(line[1:])
		case '+':
			after.WriteString(line[1:])
		case ' ':
			before.WriteString(line[1:])
			after.WriteString(line[1:])
		default:
			return "", fmt.Errorf("cannot read line %q of the diff: it starts with neither +, - nor a space", line)
		}
	}
	if n := strings.Count("\n"+text, "\n"+before.String()); n != 1 {
		return "", fmt.Errorf("what the diff changes is there %d times, not once:\n%s", n, before)
	}
	return strings.TrimPrefix(strings.Replace("\n"+text, "\n"+before.String(), "\n"+after.String(), 1), "\n"), nil
}

// apply a step to a copy of the repository.
func (s step) apply(t *testing.T, dir string) error {
	t.Helper()
	path := filepath.Join(dir, s.file)
	switch s.language {
	case "sh":
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", s.text)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath -gcflags=all=-dwarf=false", "CGO_ENABLED=0", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err == nil && strings.Contains(string(out), "[no tests to run]") {
			err = errors.New("a test that is named does not exist")
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	case "diff":
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, err := patch(string(text), s.text)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(changed), 0o600)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // A failed write says so.
	_, err = f.WriteString(s.text)
	return err
}

// copyOf the repository, always in the same folder: Go's build cache knows packages by where they are. Tests of one
// checkout do not run at the same time as others of it, since Go runs a package's tests once.
func copyOf(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, ".cache/walkthrough"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // The next run removes it too.
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		t.Fatalf("cannot list the files of the repository: %v", err)
	}
	for file := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		from, to := filepath.Join(root, file), filepath.Join(dir, file)
		info, err := os.Stat(from)
		if os.IsNotExist(err) {
			continue // Deleted, and not committed yet.
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	// The pinned tools are the same.
	tools, err := filepath.Abs(filepath.Join(root, ".cache/bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tools, filepath.Join(dir, ".cache/bin")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whoever follows the guides gets what they promise. All of them are followed in one copy, one after the other.
func TestGuides(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a copy of the repository")
	}
	dir := copyOf(t)
	for _, guide := range []string{"docs/adding-a-provider.md", "docs/maintenance.md"} {
		text, err := os.ReadFile(filepath.Join(root, guide))
		if err != nil {
			t.Fatal(err)
		}
		list, err := steps(string(text))
		if err != nil {
			t.Fatalf("%s: %v", guide, err)
		}
		if len(list) == 0 {
			t.Fatalf("%s has no steps", guide)
		}
		for _, s := range list {
			if err := s.apply(t, dir); err != nil {
				t.Fatalf("%s is out of date: line %d, %s %s: %v", guide, s.line, s.language, s.file, err)
			}
		}
	}
}

func TestSteps(t *testing.T) {
	cases := map[string]struct {
		reason string
		guide  string
		want   []step
		err    string
	}{
		"All": {
			reason: "Files, changes and commands count; what only shows something does not.",
			guide:  "a\n```go file=a.go\npackage a\n\n```\n```yaml\nkind: A\n```\n   ```sh\n   make generate\n   ```\n```diff file=a.go\n-b\n+c\n```\n",
			want: []step{
				{line: 2, language: "go", file: "a.go", text: "package a\n\n"},
				{line: 9, language: "sh", text: "make generate\n"},
				{line: 12, language: "diff", file: "a.go", text: "-b\n+c\n"},
			},
		},
		"Typo":    {reason: "A fence that cannot be read would be left out.", guide: "```go flie=a.go\n```\n", err: "line 1: cannot read fence \"```go flie=a.go\""},
		"Endless": {reason: "A fence ends.", guide: "a\n```sh\nb\n", err: "line 2: the fence does not end"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := steps(tc.guide)
			if message := fmt.Sprint(err); tc.err != "" && message != tc.err || tc.err == "" && err != nil {
				t.Errorf("%s\nsteps(...): got error %v, want %q", tc.reason, err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(step{})); diff != "" {
				t.Errorf("%s\nsteps(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPatch(t *testing.T) {
	cases := map[string]struct {
		reason           string
		text, diff, want string
		err              string
	}{
		"Insert":  {reason: "Lines come between those that stay.", text: "a\nb\nc\n", diff: " a\n+x\n b\n", want: "a\nx\nb\nc\n"},
		"Replace": {reason: "Lines are replaced, the last one too.", text: "a\nb\nc\n", diff: "-c\n+x\n", want: "a\nb\nx\n"},
		"Whole":   {reason: "A part of a line is no line.", text: "ab\nb\n", diff: "-b\n+x\n", want: "ab\nx\n"},
		"Missing": {reason: "What has changed since is not there.", text: "a\n", diff: "-b\n+x\n", err: "what the diff changes is there 0 times, not once:\nb\n"},
		"Twice":   {reason: "It must be clear which one is meant.", text: "b\na\nb\n", diff: "-b\n+x\n", err: "what the diff changes is there 2 times, not once:\nb\n"},
		"NoDiff":  {reason: "A line without a sign is a mistake.", text: "a\n", diff: "a\n", err: "cannot read line \"a\\n\" of the diff: it starts with neither +, - nor a space"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := patch(tc.text, tc.diff)
			if message := fmt.Sprint(err); tc.err != "" && message != tc.err || tc.err == "" && err != nil {
				t.Errorf("%s\npatch(...): got error %v, want %q", tc.reason, err, tc.err)
			}
			if got != tc.want {
				t.Errorf("%s\npatch(...): got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
