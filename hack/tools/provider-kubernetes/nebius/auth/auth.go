// Package auth stands in for the part of Nebius' SDK that describes credentials.
package auth

// BearerToken would be a token for Nebius.
type BearerToken struct{ Token string }

// Reader would read the key of a service account.
type Reader struct{ keyID, account string }

// NewPrivateKeyParser keeps the names and drops the key: nothing logs in with it.
func NewPrivateKeyParser(_ []byte, keyID, account string) Reader {
	return Reader{keyID: keyID, account: account}
}
