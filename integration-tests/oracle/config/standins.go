package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// standIns are readable files in place of certificates and keys named in a configuration. The result must not depend on the existence of
// those files.
type standIns struct {
	folder      string
	certificate string
	key         string
}

func newStandIns() (*standIns, error) {
	folder, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return nil, err
	}
	stand := &standIns{folder, filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")}
	if err := stand.write(); err != nil {
		stand.remove()
		return nil, err
	}
	return stand, nil
}

func (s *standIns) write() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.WriteFile(s.certificate, block, 0o600); err != nil {
		return err
	}
	block = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return os.WriteFile(s.key, block, 0o600)
}

func (s *standIns) remove() {
	_ = os.RemoveAll(s.folder)
}

// replaceFiles sets the stand-ins in extenders, and returns a function that restores the names.
func (s *standIns) replaceFiles(cfg *config.KubeSchedulerConfiguration) func() {
	var undo []func()
	replace := func(name *string, file string) {
		if written := *name; written != "" {
			*name = file
			undo = append(undo, func() { *name = written })
		}
	}
	for i := range cfg.Extenders {
		if tls := cfg.Extenders[i].TLSConfig; tls != nil {
			replace(&tls.CertFile, s.certificate)
			replace(&tls.KeyFile, s.key)
			replace(&tls.CAFile, s.certificate)
		}
	}
	return func() {
		for _, restore := range undo {
			restore()
		}
	}
}
