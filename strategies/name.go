package strategies

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"
)

// hashLength is the number of hexadecimal digits that keep shortened names apart.
const hashLength = 8

// Shorten a name to at most limit characters. A hash of the whole name keeps two long ones apart.
func Shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:limit-hashLength-1], "-.") + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// NameAbout other things: a prefix, a kind in small letters, and a hash of what it is about. About another it is another.
func NameAbout(prefix, kind string, about ...string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(about, "/")))
	return fmt.Sprintf("%s%s-%08x", prefix, strings.ToLower(kind), h.Sum32())
}
