// Package token keeps who may use the HTTP interfaces: tokens, each of one tenant and one role, and what each role may do.
//
// It owns the table token. A token is shown once, to whoever makes it; a command carries its SHA-256, and that is all that is
// ever stored, published or logged of it. Tokens are made and ended by commands, so the log knows who could do what and when.
// A revoked token is refused from the commit of that command on: nothing is cached.
package token

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A Token is the secret itself: Prefix, then 32 random bytes and the CRC-32 of them, in base32 of small letters. The prefix is for people and for scanners that look for secrets in places where none belongs; by the
// checksum such a scanner, and a server, tell a token from what only looks like one.
type Token string

// Prefix begins every token.
const Prefix = "offerlog_"

const randomBytes = 32

var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// New draws a token.
func New() Token {
	b := make([]byte, randomBytes, randomBytes+4)
	_, _ = rand.Read(b) // it never fails: a system without randomness ends the process
	return Token(Prefix + alphabet.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))))
}

// ErrMalformed reports a text that is no token: it was mistyped, cut off, or is something else. The error never holds the text.
var ErrMalformed = errors.New("not a token of offerlog: want " + Prefix + " and 58 letters and digits, as offerlog token create printed them")

// Parse takes a token as it was written. What it returns may still be nobody's.
func Parse(text string) (Token, error) {
	encoded, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return "", ErrMalformed
	}
	b, err := alphabet.DecodeString(encoded)
	if err != nil || len(b) != randomBytes+4 || alphabet.EncodeToString(b) != encoded ||
		binary.BigEndian.Uint32(b[randomBytes:]) != crc32.ChecksumIEEE(b[:randomBytes]) {
		return "", ErrMalformed
	}
	return Token(text), nil
}

// Digest is what a server knows of the token. Since a token has 256 random bits, a plain hash is as good as a slow one.
func (t Token) Digest() offer.Digest { return offer.Sum([]byte(t)) }

// String hides the token from whatever prints by accident.
func (t Token) String() string { return Prefix + "..." }

// Reveal is the token as its bearer needs it.
func (t Token) Reveal() string { return string(t) }

// ID names a token in lists, logs and commands. It says nothing that would help to use the token.
func ID(digest offer.Digest) uuid.UUID { return offer.Derive("token", digest.String()) }

// A Grant is the payload of the command that creates a token.
type Grant struct {
	Name      string     `json:"name"` // for people
	Role      Role       `json:"role"`
	SHA256    string     `json:"sha256"`               // of the token, hex
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // nil: it does not
}

// A Revocation is the payload of the command that ends a token.
type Revocation struct {
	Token uuid.UUID `json:"token"` // the id
}

const maxNameBytes = 200

// Validate reports all problems of a grant at once.
func (g Grant) Validate() error {
	var errs []error
	if strings.TrimSpace(g.Name) == "" || len(g.Name) > maxNameBytes || !utf8.ValidString(g.Name) || strings.ContainsFunc(g.Name, notGraphic) {
		errs = append(errs, fmt.Errorf("name: want 1 to %d bytes of printable text, which say whose the token is", maxNameBytes))
	}
	if !slices.Contains(Roles(), g.Role) {
		errs = append(errs, fmt.Errorf("role: want one of %v", Roles()))
	}
	if _, err := g.digest(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func notGraphic(r rune) bool { return !unicode.IsGraphic(r) }

func (g Grant) digest() (d offer.Digest, err error) {
	b, err := hex.DecodeString(g.SHA256)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("sha256: want %d hex digits", 2*len(d))
	}
	copy(d[:], b)
	return d, nil
}

// ParseGrant reads the payload of a command.
func ParseGrant(payload []byte) (g Grant, err error) {
	if err := decode(payload, &g); err != nil {
		return g, fmt.Errorf("read a token's grant: %w", err)
	}
	return g, g.Validate()
}

// ParseRevocation reads the payload of a command.
func ParseRevocation(payload []byte) (r Revocation, err error) {
	if err := decode(payload, &r); err != nil {
		return r, fmt.Errorf("read a token's revocation: %w", err)
	}
	if r.Token == uuid.Nil {
		return r, errors.New("token: want the token's id")
	}
	return r, nil
}

// decode reads one JSON object that has no member twice and none that nobody knows.
func decode(payload []byte, v any) error {
	if _, err := jsontext.AppendFormat(nil, payload); err != nil {
		return errors.New("the payload is no JSON object without repeated names")
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more text after the object")
	}
	return nil
}
