package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
)

// rekorEntries makes entries as Rekor v2 logs them: protobuf JSON of its Entry message, canonicalised (RFC 8785), each about a DSSE
// envelope that was signed with a P-256 key. Odd indexes are of kind "hashedrekord", as Rekor takes DSSE today: the SHA-256 of
// what was signed; even ones of kind "dsse", as its first shards hold: the SHA-256 of the payload.
func rekorEntries(count uint64) ([][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	entries := make([][]byte, count)
	for i := range entries {
		if entries[i], err = rekorEntry(i, key, spki); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func rekorEntry(i int, key *ecdsa.PrivateKey, spki []byte) ([]byte, error) {
	const payloadType = "application/vnd.in-toto+json"
	payload := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","predicate":{},"predicateType":"https://example.com/peer/v1","subject":[{"digest":{"sha256":"%x"},"name":"artifact-%d"}]}`, sha256.Sum256(fmt.Append(nil, i)), i)
	pae := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
	digest := sha256.Sum256(pae)
	content, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return nil, err
	}
	// Members of a Go map are written in the order that RFC 8785 asks for: these names are ASCII.
	type object = map[string]any
	signature := object{"content": content, "verifier": object{"keyDetails": "PKIX_ECDSA_P256_SHA_256", "publicKey": object{"rawBytes": spki}}}
	if i%2 == 1 {
		data := object{"algorithm": "SHA2_256", "digest": digest[:]}
		return json.Marshal(object{"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": object{"hashedRekordV002": object{"data": data, "signature": signature}}})
	}
	digest = sha256.Sum256(payload)
	hash := object{"algorithm": "SHA2_256", "digest": digest[:]}
	return json.Marshal(object{"apiVersion": "0.0.2", "kind": "dsse", "spec": object{"dsseV002": object{"payloadHash": hash, "signatures": []object{signature}}}})
}
