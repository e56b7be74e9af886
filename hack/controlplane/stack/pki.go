package stack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	private = 0o600
	folder  = 0o755

	validity   = 30 * 24 * time.Hour
	serialBits = 64
)

// An authority signs the certificates of one trust domain. Nothing that one signed is trusted in another.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// newAuthority in a folder, with the files ca.crt and ca.key.
func newAuthority(dir, name string) (*authority, error) {
	if err := os.MkdirAll(dir, folder); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &authority{dir: dir, key: key, cert: template}
	raw, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	return a, writePair(dir, "ca", a.pem, key)
}

// loadAuthority that newAuthority has made in a folder.
func loadAuthority(dir string) (*authority, error) {
	path := filepath.Join(dir, "ca.crt")
	pair, err := tls.LoadX509KeyPair(path, filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the authority in %s: %w", dir, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("cannot use the key in %s: it is a %T", dir, pair.PrivateKey)
	}
	raw, err := os.ReadFile(path)
	return &authority{dir: dir, key: key, cert: pair.Leaf, pem: raw}, err
}

func (a *authority) sign(template *x509.Certificate, public *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(validity)
	return x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
}

// issue a certificate of a user or server, with the names that a local server has.
func (a *authority) issue(name string, groups ...string) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	raw, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1")},
	}, &key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), key, nil
}

// issueFiles writes the certificate of a server into a folder with the names that Kubernetes and Crossplane look for.
func (a *authority) issueFiles(dir, name string) error {
	cert, key, err := a.issue(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, folder); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), a.pem, private); err != nil {
		return err
	}
	return writePair(dir, "tls", cert, key)
}

// kubeconfig of a user of the API server, as a file.
func (a *authority) kubeconfig(path, server, user string, groups ...string) error {
	cert, key, err := a.issue(user, groups...)
	if err != nil {
		return err
	}
	rawKey, err := encodeKey(key)
	if err != nil {
		return err
	}
	const name = "default"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.pem}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: rawKey}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := os.MkdirAll(filepath.Dir(path), folder); err != nil {
		return err
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return os.Chmod(path, private)
}

func writePair(dir, name string, cert []byte, key *ecdsa.PrivateKey) error {
	raw, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), cert, private); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), raw, private)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), nil
}

// writeKey makes a key that signs ServiceAccount tokens.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	raw, err := encodeKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, private)
}
