// Checks a verifiable log with transparency-dev's own code: Tessera's fsck, their Merkle proofs, Go's signed notes.
// Reads questions as a JSON array from standard input; prints an array of errors, empty where there is none.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
)

type question struct {
	Kind     string
	URL      string
	Key      string
	Note     string
	Leaf     []byte
	Index    uint64
	Size     uint64
	Second   uint64
	Hashes   [][]byte
	Root     []byte
	NextRoot []byte
	Workers  uint // of fsck; it hangs when as many tiles are wrong
}

func leafHashes(bundle []byte) ([][]byte, error) {
	entries := &api.EntryBundle{}
	if err := entries.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	hashes := make([][]byte, 0, len(entries.Entries))
	for _, entry := range entries.Entries {
		hashes = append(hashes, rfc6962.DefaultHasher.HashLeaf(entry))
	}
	return hashes, nil
}

func check(q question) error {
	switch q.Kind {
	case "inclusion":
		return proof.VerifyInclusion(rfc6962.DefaultHasher, q.Index, q.Size, q.Leaf, q.Hashes, q.Root)
	case "consistency":
		return proof.VerifyConsistency(rfc6962.DefaultHasher, q.Size, q.Second, q.Hashes, q.Root, q.NextRoot)
	}
	verifier, err := note.NewVerifier(q.Key)
	if err != nil {
		return err
	}
	if q.Kind == "note" {
		_, err := note.Open([]byte(q.Note), note.VerifierList(verifier))
		return err
	}
	address, err := url.Parse(q.URL)
	if err != nil {
		return err
	}
	source, err := client.NewHTTPFetcher(address, nil)
	if err != nil {
		return err
	}
	return fsck.New(verifier.Name(), verifier, source, leafHashes, fsck.Opts{N: q.Workers}).Check(context.Background())
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	answers := make([]string, len(questions))
	for i, q := range questions {
		if err := check(q); err != nil {
			answers[i] = err.Error()
		}
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
