package token_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

var now = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), rig.Database(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// ingest runs f as a command's transaction does.
func ingest(t *testing.T, pool *pgxpool.Pool, f func(tx pgx.Tx) (*offer.Fault, error)) (fault *offer.Fault) {
	t.Helper()
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) (err error) {
		fault, err = f(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fault
}

func create(t *testing.T, pool *pgxpool.Pool, tenant string, role token.Role, secret token.Token, expires *time.Time) *offer.Fault {
	t.Helper()
	return ingest(t, pool, func(tx pgx.Tx) (*offer.Fault, error) {
		g := token.Grant{Name: "a connector", Role: role, SHA256: secret.Digest().String(), ExpiresAt: expires}
		return token.Create(t.Context(), tx, tenant, g, offer.DeliveryID{1}, now)
	})
}

func revoke(t *testing.T, pool *pgxpool.Pool, tenant string, id uuid.UUID, at time.Time) *offer.Fault {
	t.Helper()
	return ingest(t, pool, func(tx pgx.Tx) (*offer.Fault, error) {
		return token.Revoke(t.Context(), tx, tenant, token.Revocation{Token: id}, offer.DeliveryID{2}, at)
	})
}

// identify asks as a server does, which knows no tenant yet.
func identify(t *testing.T, pool *pgxpool.Pool, secret token.Token, at time.Time) (b token.Bearer, err error) {
	t.Helper()
	_ = postgres.AsTenant(t.Context(), pool, postgres.Read, "", func(tx pgx.Tx) error {
		b, err = token.Identify(t.Context(), tx, secret, at)
		return nil
	})
	return b, err
}

func TestATokenSpeaksForOneTenantInOneRoleUntilItEnds(t *testing.T) {
	pool := open(t)
	lasting, short := token.New(), token.New()
	tomorrow := now.Add(24 * time.Hour)
	if fault := create(t, pool, "t1", token.Publisher, lasting, nil); fault != nil {
		t.Fatal(fault)
	}
	if fault := create(t, pool, "t2", token.Auditor, short, &tomorrow); fault != nil {
		t.Fatal(fault)
	}
	id := token.ID(lasting.Digest())
	check := func(sentence string, secret token.Token, at time.Time, want token.Bearer) {
		t.Helper()
		got, err := identify(t, pool, secret, at)
		if got != want || (want == token.Bearer{}) != errors.Is(err, token.ErrRefused) {
			t.Errorf("%s: got %+v, %v, want %+v", sentence, got, err, want)
		}
	}
	publisher, auditor, nobody := token.Bearer{Tenant: "t1", Role: token.Publisher, Token: id},
		token.Bearer{Tenant: "t2", Role: token.Auditor, Token: token.ID(short.Digest())}, token.Bearer{}
	check("the one that lasts", lasting, now.Add(10*365*24*time.Hour), publisher)
	check("the other, just before its end", short, tomorrow.Add(-time.Nanosecond), auditor)
	check("and at its end", short, tomorrow, nobody)
	check("one that nobody made", token.New(), now, nobody)

	if fault := revoke(t, pool, "t2", id, now); fault == nil || fault.Path != "token" {
		t.Errorf("another tenant's token was revoked: %v", fault)
	}
	check("after another tenant's command", lasting, now, publisher)
	for range 2 { // the second time it is ended already
		if fault := revoke(t, pool, "t1", id, tomorrow); fault != nil {
			t.Error(fault)
		}
	}
	check("revoked, whatever the clock of the server says", lasting, now, nobody)
}

func TestWhatCannotBeATokenIsRefusedAndChangesNothing(t *testing.T) {
	pool := open(t)
	secret := token.New()
	yesterday := now.Add(-24 * time.Hour)
	if fault := create(t, pool, "t1", token.Reader, secret, &yesterday); fault == nil || fault.Path != "expires_at" {
		t.Errorf("a token that has expired: got %v", fault)
	}
	if fault := create(t, pool, "t1", token.Reader, secret, nil); fault != nil {
		t.Fatal(fault)
	}
	// Who got hold of the digest on the commands topic cannot make the token speak for somebody else.
	if fault := create(t, pool, "t2", token.Admin, secret, nil); fault == nil || fault.Path != "sha256" {
		t.Errorf("a digest that is known: got %v", fault)
	}
	if b, err := identify(t, pool, secret, now); err != nil || b.Tenant != "t1" || b.Role != token.Reader {
		t.Errorf("got %+v, %v, want the reader of t1", b, err)
	}
}

func TestTokensAreListedForTheirTenantAlone(t *testing.T) {
	pool := open(t)
	tomorrow := now.Add(24 * time.Hour)
	tokens := map[string]token.Token{"active": token.New(), "expired": token.New(), "revoked": token.New()}
	for state, secret := range tokens {
		if fault := create(t, pool, "t1", token.Publisher, secret, map[bool]*time.Time{true: &tomorrow}[state == "expired"]); fault != nil {
			t.Fatal(fault)
		}
	}
	if fault := revoke(t, pool, "t1", token.ID(tokens["revoked"].Digest()), tomorrow); fault != nil {
		t.Fatal(fault)
	}
	for tenant, want := range map[string]int{"t1": 3, "t2": 0, "": 0} {
		var list []token.Listed
		err := postgres.AsTenant(t.Context(), pool, postgres.Audit, tenant, func(tx pgx.Tx) (err error) {
			list, err = token.List(t.Context(), tx, tomorrow)
			return err
		})
		if err != nil || len(list) != want {
			t.Errorf("tenant %q: got %d tokens, %v, want %d", tenant, len(list), err, want)
		}
		for _, l := range list {
			if l.ID != token.ID(tokens[l.State].Digest()) || l.Name != "a connector" || !l.CreatedAt.Equal(now) {
				t.Errorf("got %+v, which is not the one that is %s", l, l.State)
			}
		}
	}
}

// The server's surface: one function that answers for one digest. No role but ingest gets at the digests, and ingest removes
// none.
func TestNoRoleCanReadTheDigests(t *testing.T) {
	pool := open(t)
	secret := token.New()
	if fault := create(t, pool, "t1", token.Publisher, secret, nil); fault != nil {
		t.Fatal(fault)
	}
	digest := secret.Digest()
	for statement, allowed := range map[string][]postgres.Role{
		"SELECT count(sha256) FROM token":                              {postgres.Ingest},
		"SELECT count(id) FROM token":                                  {postgres.Ingest, postgres.Audit},
		"EXPLAIN DELETE FROM token":                                    {},
		"SELECT count(*) FROM audit_v1.token WHERE tenant = 't1'":      {postgres.Inspect},
		fmt.Sprintf(`SELECT token_by_digest('\x%s')`, digest.String()): {postgres.Read},
	} {
		for _, role := range postgres.Roles() {
			err := postgres.AsTenant(t.Context(), pool, role, "t1", func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), statement)
				return err
			})
			pg, refused := errors.AsType[*pgconn.PgError](err)
			if refused && pg.Code != "42501" || !refused && err != nil {
				t.Errorf("%s as %s: %v", statement, role, err)
			}
			want := strings.Contains(fmt.Sprint(allowed), string(role))
			if refused == want {
				t.Errorf("%s as %s: got %v, allowed %t", statement, role, err, want)
			}
		}
	}
}
