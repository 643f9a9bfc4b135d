package token_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/token"
)

func TestATokenIsTakenAsItWasPrintedAndNothingElseIs(t *testing.T) {
	one := token.New()
	text := one.Reveal()
	if got, err := token.Parse(text); err != nil || got != one || len(text) != len(token.Prefix)+58 {
		t.Fatalf("got %q, %v, want the token", got, err)
	}
	if token.New() == one {
		t.Fatal("two tokens are the same")
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		other := func(c byte) bool { return c != text[at] }
		c := rapid.SampledFrom([]byte("abcdefghijklmnopqrstuvwxyz234567AB019_ \n")).Filter(other).Draw(t, "letter")
		if got, err := token.Parse(text[:at] + string(c) + text[at+1:]); !errors.Is(err, token.ErrMalformed) || got != "" {
			t.Errorf("letter %d as %q: got %q, %v, want ErrMalformed", at, c, got, err)
		}
	})
	for sentence, text := range map[string]string{
		"nothing": "", "the prefix alone": token.Prefix, "cut off": text[:len(text)-1], "one letter too many": text + "a", "a space before it": " " + text,
		"in capitals": strings.ToUpper(text), "another's": "ghp_" + text[len(token.Prefix):], "padded": text + "======",
	} {
		if _, err := token.Parse(text); !errors.Is(err, token.ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", sentence, err)
		}
	}
}

func TestATokenPrintsNothingOfItself(t *testing.T) {
	one := token.New()
	secret := one.Reveal()[len(token.Prefix):]
	id := token.ID(one.Digest())
	for sentence, text := range map[string]string{
		"printed": fmt.Sprintf("%v %s %+v %q", one, one, struct{ T token.Token }{one}, one), "its digest": one.Digest().String(), "its id": id.String(),
		"an error": token.ErrMalformed.Error(),
	} {
		if strings.Contains(text, secret) || strings.Contains(text, secret[:20]) {
			t.Errorf("%s: got %s, which holds the secret", sentence, text)
		}
	}
}

// The table is written out here once more, so that a right is never given by accident: of the four kinds of record a reader
// gets offers, an auditor artifacts, an operator the run log, and nobody gets another's.
func TestS_000_11_each_role_has_its_rights_and_no_other(t *testing.T) {
	want := `
		publisher  deliver, read receipts
		reader     read offers
		auditor    read artifacts, read receipts
		operator   read runs, read receipts, decide
		admin      manage tokens`
	granted := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(want)) {
		role, rights, _ := strings.Cut(strings.TrimSpace(line), " ")
		for right := range strings.SplitSeq(rights, ",") {
			granted[role+" "+strings.TrimSpace(right)] = true
		}
	}
	n := 0
	for _, r := range append(token.Roles(), "", "root", "Admin") {
		for _, a := range append(token.Accesses(), "", "everything") {
			got := r.May(a)
			if got != granted[string(r)+" "+string(a)] {
				t.Errorf("role %q, %s: got %t", r, a, got)
			}
			if got {
				n++
			}
		}
	}
	if n != len(granted) {
		t.Errorf("%d rights are given, want %d", n, len(granted))
	}
}

func TestGrantsAreReadStrictly(t *testing.T) {
	digest := token.New().Digest().String()
	good := fmt.Sprintf(`{"name":"acme's connector","role":"publisher","sha256":%q,"expires_at":"2026-12-31T00:00:00Z"}`, digest)
	g, err := token.ParseGrant([]byte(good))
	if err != nil || g.Role != token.Publisher || g.SHA256 != digest || g.ExpiresAt == nil || !g.ExpiresAt.Equal(time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)) {
		t.Fatalf("got %+v, %v", g, err)
	}
	for sentence, c := range map[string]struct{ replace, with, want string }{
		"no role":             {`"publisher"`, `""`, "role: want one of"},
		"a role that is none": {`"publisher"`, `"root"`, "role: want one of"},
		"no name":             {"acme's connector", " ", "name: want"},
		"a name in colours":   {"acme's connector", `\u001b[31m`, "name: want"},
		"a long name":         {"acme", strings.Repeat("a", 200), "name: want"},
		"a short digest":      {digest, digest[:62], "sha256: want 64 hex digits"},
		"no hex":              {digest, strings.Repeat("x", 64), "sha256: want 64 hex digits"},
		"the token itself":    {`"name"`, `"token"`, "unknown field"},
		"a member twice":      {`"name"`, `"role":"admin","name"`, "repeated names"},
		"two objects":         {"}", "}{}", "without repeated names"},
		"no object":           {good, "[]", "cannot unmarshal array"},
		"a time that is none": {"2026-12-31T00:00:00Z", "soon", "parsing time"},
		"cut off":             {`"}`, "", "no JSON object"},
	} {
		if _, err := token.ParseGrant([]byte(strings.Replace(good, c.replace, c.with, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", sentence, err, c.want)
		}
	}
}

func TestRevocationsAreReadStrictly(t *testing.T) {
	id := token.ID(offer.Sum([]byte("x")))
	b, err := json.Marshal(token.Revocation{Token: id})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := token.ParseRevocation(b); err != nil || r.Token != id {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, text := range []string{"{}", `{"token":""}`, `{"token":"` + uuid.Nil.String() + `"}`, `{"id":"` + id.String() + `"}`, `null`, ``} {
		if r, err := token.ParseRevocation([]byte(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", text, r)
		}
	}
	if slices.Contains(token.Roles(), "") {
		t.Error("no role is a role")
	}
}
