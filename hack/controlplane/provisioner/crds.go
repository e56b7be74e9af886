package provisioner

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed crds/*.yaml
var files embed.FS

// CRDs of the kinds that Rancher and Harvester serve, as YAML documents.
func CRDs() (string, error) {
	var documents []string
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := files.ReadFile(path)
		documents = append(documents, string(raw))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("cannot read the embedded CRDs: %w", err)
	}
	return strings.Join(documents, "\n---\n"), nil
}
