// Package gosdk stands in for Nebius' SDK, so that provider-kubernetes can be built without it. It has what the provider
// names, and its constructor always fails: a ProviderConfig with a Nebius identity says so.
package gosdk

import (
	"context"
	"errors"

	"github.com/nebius/gosdk/auth"
)

// Credentials say who logs in.
type Credentials struct{ reader auth.Reader }

// An Option of New.
type Option struct{ credentials Credentials }

// SDK would be a logged-in client.
type SDK struct{}

// ServiceAccountReader returns credentials read by reader.
func ServiceAccountReader(reader auth.Reader) Credentials {
	return Credentials{reader: reader}
}

// WithCredentials returns the option to log in with credentials.
func WithCredentials(credentials Credentials) Option {
	return Option{credentials: credentials}
}

// New always fails.
func New(context.Context, ...Option) (*SDK, error) {
	return nil, errors.ErrUnsupported
}

// BearerToken always fails.
func (*SDK) BearerToken(context.Context) (auth.BearerToken, error) {
	return auth.BearerToken{}, errors.ErrUnsupported
}
