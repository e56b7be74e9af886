package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	goos = "linux"

	// entrypoint of the image.
	entrypoint = "/usr/local/bin/function-rig"
	// user is the one that images without a shell call nonroot.
	user = "65532:65532"

	regular    = 0o644
	executable = 0o755
)

// Files of the image by their path, without the binary. The function calls nobody; the certificates are there because a
// program, or whoever debugs one, looks for them where an image usually has them. They come from a pinned module, so that
// they change with go.sum and not with the machine that builds, and as a file rather than linked into the function, so that
// a scanner sees them and a mount can replace them.
func baseFiles() map[string][]byte {
	certificates := &bytes.Buffer{}
	for root := range bundle.Roots() {
		// A bundle of PEM cannot say until when a root is to be trusted.
		if root.Constraint == nil {
			certificates.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return map[string][]byte{
		"etc/group":                         []byte("root:x:0:\nnonroot:x:65532:\n"),
		"etc/passwd":                        []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"),
		"etc/ssl/certs/ca-certificates.crt": certificates.Bytes(),
	}
}

// labels of the image.
func (b *build) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       functionName,
		"org.opencontainers.image.description": "Crossplane composition function that hands out Kubernetes clusters within a quota",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/rig-gateway/function-rig",
		"org.opencontainers.image.version":     b.version(),
	}
	if b.revision != "" {
		labels["org.opencontainers.image.revision"] = b.revision
	}
	return labels
}

// rootfs is the folder with everything that is in the image, which the Dockerfile copies.
func (b *build) rootfs(arch string) string { return filepath.Join(b.out, goos+"-"+arch, "rootfs") }

func (b *build) imageFile(arch string) string {
	return filepath.Join(b.out, goos+"-"+arch, "image.tar")
}

// image builds the function, its root file system and its image, and returns the image's digest.
func (b *build) image(ctx context.Context, arch string) (v1.Hash, error) {
	rootfs := b.rootfs(arch)
	if err := os.RemoveAll(rootfs); err != nil {
		return v1.Hash{}, err
	}
	files := baseFiles()
	for name, content := range files {
		if err := write(filepath.Join(rootfs, name), content, regular); err != nil {
			return v1.Hash{}, err
		}
	}
	binary := filepath.Join(rootfs, entrypoint)
	if err := b.compile(ctx, arch, binary); err != nil {
		return v1.Hash{}, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return v1.Hash{}, err
	}
	// Two layers: the first one stays the same when the function changes.
	image, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), b.config(arch))
	if err != nil {
		return v1.Hash{}, err
	}
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	for _, layer := range []map[string]file{
		asFiles(files, regular),
		{strings.TrimPrefix(entrypoint, "/"): {content, executable}},
	} {
		if image, err = appendLayer(image, layer); err != nil {
			return v1.Hash{}, err
		}
	}
	tag, err := name.NewTag(fmt.Sprintf("%s:%s-%s", functionName, b.version(), arch))
	if err != nil {
		return v1.Hash{}, err
	}
	if err := tarball.WriteToFile(b.imageFile(arch), tag, image); err != nil {
		return v1.Hash{}, fmt.Errorf("cannot write %s: %w", b.imageFile(arch), err)
	}
	return image.Digest()
}

// compile the function. The architecture's level is fixed, since the environment may ask for another.
func (b *build) compile(ctx context.Context, arch, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
		"-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", binary, "./fn")
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the function for %s: %w\n%s", arch, err, out)
	}
	return nil
}

func (b *build) config(arch string) *v1.ConfigFile {
	return &v1.ConfigFile{
		Architecture: arch, OS: goos,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user, Entrypoint: []string{entrypoint}, WorkingDir: "/", Labels: b.labels(),
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9443/tcp": {}},
		},
	}
}

// file of a layer.
type file struct {
	content []byte
	mode    fs.FileMode
}

func asFiles(contents map[string][]byte, mode fs.FileMode) map[string]file {
	files := map[string]file{}
	for name, content := range contents {
		files[name] = file{content, mode}
	}
	return files
}

func appendLayer(image v1.Image, files map[string]file) (v1.Image, error) {
	raw, err := archive(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("cannot make a layer: %w", err)
	}
	return mutate.AppendLayers(image, layer)
}

// archive files and the folders above them. Everything belongs to root and is as old as Unix.
func archive(files map[string]file) ([]byte, error) {
	entries := map[string]*file{}
	for name, f := range files {
		entries[name] = &f
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			entries[dir+"/"] = nil
		}
	}
	out := &bytes.Buffer{}
	writer := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		header := &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: executable, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		f := entries[name]
		if f == nil {
			f = &file{}
		} else {
			header.Typeflag, header.Mode, header.Size = tar.TypeReg, int64(f.mode), int64(len(f.content))
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(f.content); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), writer.Close()
}

func write(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), executable); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}
