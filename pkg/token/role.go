package token

import "slices"

// A Role says what the bearer of a token may do. A token has one.
type Role string

// Roles of people and programs. Duties are kept apart: who sends evidence does not decide about it, who decides does not
// send it, and who hands out tokens does neither.
const (
	Publisher Role = "publisher" // a connector or a supplier: sends deliveries
	Reader    Role = "reader"    // a shop or an agent: reads offers
	Auditor   Role = "auditor"   // reads the evidence
	Operator  Role = "operator"  // reads the run log and decides
	Admin     Role = "admin"     // hands out tokens
)

// Roles are all of them.
func Roles() []Role { return []Role{Publisher, Reader, Auditor, Operator, Admin} }

// An Access is one thing that can be done through an interface: a kind of record that is read, or written.
type Access string

// Accesses. The first four are the kinds of record, which retention and rights tell apart.
const (
	ReadOffers    Access = "read offers"    // observations, the view and its freshness
	ReadArtifacts Access = "read artifacts" // the literal payloads
	ReadRuns      Access = "read runs"      // the run log: attempts, pages, quarantine
	ReadReceipts  Access = "read receipts"  // what became of a delivery
	Deliver       Access = "deliver"        // send deliveries and the events of runs
	Decide        Access = "decide"         // publish commands about feeds, runs and quarantine
	ManageTokens  Access = "manage tokens"
)

// Accesses are all of them.
func Accesses() []Access {
	return []Access{ReadOffers, ReadArtifacts, ReadRuns, ReadReceipts, Deliver, Decide, ManageTokens}
}

// rights are what each role may do; nothing else. A receipt holds no payload and no offer: it goes to all who need to know
// what became of a delivery.
var rights = map[Role][]Access{
	Publisher: {Deliver, ReadReceipts},
	Reader:    {ReadOffers},
	Auditor:   {ReadArtifacts, ReadReceipts},
	Operator:  {ReadRuns, ReadReceipts, Decide},
	Admin:     {ManageTokens},
}

// May reports whether the role has a right. A role that is none has no right.
func (r Role) May(a Access) bool { return slices.Contains(rights[r], a) }
