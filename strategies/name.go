package strategies

import (
	"crypto/sha256"
	"encoding/hex"
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
