package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

const (
	payloadBytesMax = 40_000
	signaturesMax   = 16
	// A keyid that names nobody makes every key a candidate, up to this many of them.
	tryAllMax = 64
)

// refusal is an answer other than 200.
type refusal struct {
	status  int
	code    string
	message string
}

func malformed(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, "MALFORMED", fmt.Sprintf(format, args...)}
}

// envelope is a DSSE 1.0.2 envelope; payload and sig stay text, for the base64 alphabet is the sender's choice.
type envelope struct {
	PayloadType *string `json:"payloadType"`
	Payload     *string `json:"payload"`
	Signatures  []struct {
		KeyID string  `json:"keyid"`
		Sig   *string `json:"sig"`
	} `json:"signatures"`
}

// keyring holds the enrolled keys.
type keyring struct {
	all    []ed25519.PublicKey
	byHint map[string]ed25519.PublicKey
}

// readKeys reads one base64 raw Ed25519 public key a line.
func readKeys(name string) (*keyring, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	ring := &keyring{byHint: make(map[string]ed25519.PublicKey)}
	for n, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%s:%d: not 32 bytes of base64", name, n+1)
		}
		if err := ring.enrol(raw); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n+1, err)
		}
	}
	if len(ring.all) == 0 {
		return nil, fmt.Errorf("%s: no keys", name)
	}
	return ring, nil
}

func (k *keyring) enrol(key ed25519.PublicKey) error {
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return err
	}
	ofSPKI, ofRaw := sha256.Sum256(spki), sha256.Sum256(key)
	k.all = append(k.all, key)
	for _, hint := range []string{"id_" + hex.EncodeToString(ofSPKI[:]), hex.EncodeToString(ofSPKI[:]), hex.EncodeToString(ofRaw[:])} {
		k.byHint[hint] = key
	}
	return nil
}

// admit decodes one envelope and demands a signature by an enrolled key over its PAE.
func (k *keyring) admit(body []byte) *refusal {
	var env envelope
	// This decoder refuses duplicate members and invalid UTF-8, and compares names exactly.
	if err := json.Unmarshal(body, &env); err != nil {
		return malformed("%v", err)
	}
	switch {
	case env.PayloadType == nil || env.Payload == nil || len(env.Signatures) == 0:
		return malformed("payloadType, payload and signatures are required")
	case *env.PayloadType == "":
		return &refusal{http.StatusUnprocessableEntity, "TYPE_NOT_ALLOWED", "empty payloadType"}
	case len(env.Signatures) > signaturesMax:
		return &refusal{http.StatusRequestEntityTooLarge, "TOO_LARGE", "more than 16 signatures"}
	}
	payload, err := decodeBase64(*env.Payload)
	if err != nil {
		return malformed("/payload: %v", err)
	}
	if len(payload) > payloadBytesMax {
		return &refusal{http.StatusRequestEntityTooLarge, "TOO_LARGE", "payload of more than 40,000 bytes"}
	}
	message := pae(*env.PayloadType, payload)
	verified, named := false, false
	for i, s := range env.Signatures {
		if s.Sig == nil {
			return malformed("/signatures/%d/sig is required", i)
		}
		sig, err := decodeBase64(*s.Sig)
		if err != nil {
			return malformed("/signatures/%d/sig: %v", i, err)
		}
		ok, known := k.verify(message, sig, s.KeyID)
		verified, named = verified || ok, named || known
	}
	switch {
	case verified:
		return nil
	case named:
		return &refusal{http.StatusUnprocessableEntity, "SIGNATURE_INVALID", "the signature of the named key fails"}
	}
	return &refusal{http.StatusUnauthorized, "SIGNER_UNKNOWN", "no signature by an enrolled key"}
}

// verify tells whether an enrolled key made sig, and whether keyid names one.
func (k *keyring) verify(message, sig []byte, keyID string) (ok, named bool) {
	if key, named := k.byHint[keyID]; named {
		return ed25519.Verify(key, message, sig), true
	}
	if len(k.all) <= tryAllMax {
		for _, key := range k.all {
			if ed25519.Verify(key, message, sig) {
				return true, false
			}
		}
	}
	return false, false
}

// pae is DSSE's pre-authentication encoding.
func pae(payloadType string, payload []byte) []byte {
	out := make([]byte, 0, len("DSSEv1")+2*len(" 18446744073709551615 ")+len(payloadType)+len(payload))
	out = append(out, "DSSEv1 "...)
	out = append(strconv.AppendInt(out, int64(len(payloadType)), 10), ' ')
	out = append(append(out, payloadType...), ' ')
	out = append(strconv.AppendInt(out, int64(len(payload)), 10), ' ')
	return append(out, payload...)
}

var (
	standard = base64.StdEncoding.Strict()
	urlSafe  = base64.URLEncoding.Strict()
)

func decodeBase64(text string) ([]byte, error) {
	if raw, err := standard.DecodeString(text); err == nil {
		return raw, nil
	}
	return urlSafe.DecodeString(text)
}
