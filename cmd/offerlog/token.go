package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) tokenCommand() *cobra.Command {
	var (
		d          decision
		timeout    time.Duration
		name, role string
		expires    string
	)
	create := &cobra.Command{
		Use:   "create --role ROLE --name NAME",
		Short: "Make a token of the tenant, and print it this one time",
		Long: "Makes a token, publishes its SHA-256 as a command event, waits for the outcome, and prints the token alone on standard\n" +
			"output. It is kept nowhere: who loses it makes another. Roles, and what each may do:\n\n" +
			"  publisher  send deliveries, and see what became of the tenant's\n" +
			"  reader     read offers\n" +
			"  auditor    read artifacts, and what became of deliveries\n" +
			"  operator   read the run log, see what became of deliveries, decide\n" +
			"  admin      hand out tokens",
		Example: "  offerlog token create --role publisher --name \"acme's connector\" --expires 90d\n" +
			"  (umask 077; offerlog token create --role publisher --name drop >publisher.token)",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret := token.New()
			g := token.Grant{Name: name, Role: token.Role(role), SHA256: secret.Digest().String()}
			if expires != "" {
				life, err := parseLife(expires)
				if err != nil {
					return usage("write 90d or 12h, or leave it out for a token that lasts until it is revoked", "--expires: %w", err)
				}
				end := time.Now().Add(life).UTC().Truncate(time.Second)
				g.ExpiresAt = &end
			}
			if err := g.Validate(); err != nil {
				return usage(didYouMean(role, roleNames(), "run offerlog token create --help"), "%w", err)
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			if _, err := a.command(ctx, streams.TokenCreateType, g, d); err != nil {
				return fmt.Errorf("create a token: %w", err)
			}
			return a.showToken(secret, g)
		},
	}
	create.Flags().StringVar(&role, "role", "", strings.Join(roleNames(), ", "))
	create.Flags().StringVar(&name, "name", "", "whose it is, for people")
	create.Flags().StringVar(&expires, "expires", "", "its life, such as 90d or 12h (default: until it is revoked)")
	d.flags(create, &timeout)

	list := &cobra.Command{
		Use:     "list",
		Short:   "Print the tenant's tokens, also those that have ended",
		Example: "  offerlog token list --tenant demo\n  offerlog token list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var tokens []token.Listed
			err := a.asTenant(cmd.Context(), postgres.Audit, func(tx pgx.Tx) (err error) {
				tokens, err = token.List(cmd.Context(), tx, time.Now())
				return err
			})
			if err != nil {
				return err
			}
			return show(a, "ID\tNAME\tROLE\tSTATE\tCREATED\tEXPIRES", tokens, func(l token.Listed) string {
				return cells(l.ID.String(), l.Name, string(l.Role), l.State, day(&l.CreatedAt), day(l.ExpiresAt))
			})
		},
	}

	revoke := &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a token: it is refused as soon as the command is stored",
		Example: "  offerlog token revoke 0d5c61ab-6b0c-8d0e-a8b2-5b2e3a7d6c11 --reason \"left in a log\"",
		Args:    oneArg("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usage("run offerlog token list for the ids; the token itself is none", "the argument is no id of a token")
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			doc, err := a.command(ctx, streams.TokenRevokeType, token.Revocation{Token: id}, d)
			if failed, ok := errors.AsType[*exitError](err); ok && failed.code == offer.ReasonSchemaInvalid {
				return &exitError{exitNotFound, "no_token", "run offerlog token list for the tenant's tokens", fmt.Errorf("tenant %s has no token %s", a.settings.Tenant, id)}
			}
			if err != nil {
				return fmt.Errorf("revoke token %s: %w", id, err)
			}
			return show(a, "TOKEN\tSTATE\tEVENT", []revoked{{id, "revoked", doc.Standpoint}}, func(r revoked) string {
				return cells(r.Token.String(), r.State, r.Where())
			})
		},
	}
	d.flags(revoke, &timeout)
	return group("token", "Make, list and revoke the tokens of the HTTP interfaces", create, list, revoke)
}

// A revoked token is what became of the command.
type revoked struct {
	Token uuid.UUID `json:"token"`
	State string    `json:"state"`
	receipt.Standpoint
}

func roleNames() (names []string) {
	for _, r := range token.Roles() {
		names = append(names, string(r))
	}
	return names
}

// showToken prints a new token: for people the token on standard output, so that it can be put into a file, and the rest
// beside it.
func (a *app) showToken(secret token.Token, g token.Grant) error {
	id := token.ID(secret.Digest())
	if a.json {
		return show(a, "", []created{{id, a.settings.Tenant, g.Name, g.Role, g.ExpiresAt, secret.Reveal()}}, nil)
	}
	until := "until it is revoked"
	if g.ExpiresAt != nil {
		until = "until " + day(g.ExpiresAt)
	}
	fmt.Fprintf(a.stderr, "token %s: %s of tenant %s, %s; it is shown this one time\n", id, g.Role, a.settings.Tenant, until)
	_, err := fmt.Fprintln(a.stdout, secret.Reveal())
	return err
}

// A created token, with the token itself.
type created struct {
	ID        uuid.UUID  `json:"id"`
	Tenant    string     `json:"tenant"`
	Name      string     `json:"name"`
	Role      token.Role `json:"role"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Token     string     `json:"token"`
}

// day is a time for people; "" where there is none.
func day(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// maxLife keeps a life within what a date can hold.
const maxLife = 100 * 365 * 24 * time.Hour

// parseLife reads a duration that may be in days.
func parseLife(text string) (time.Duration, error) {
	life, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		life = time.Duration(min(max(n, 0), 1_000_000)) * 24 * time.Hour
	}
	if err != nil || life <= 0 || life > maxLife {
		return 0, fmt.Errorf("%q is no life of a token", text)
	}
	return life, nil
}
