// Package chaos kills offerlog. Its tests run the binary in processes of their own on real servers, end them with SIGKILL at
// every fault point and at random instants, stop them until others have taken over, and hold what is stored afterwards
// against the invariants (package audit) and against a model of what was delivered.
//
// It holds nothing but tests. A campaign prints its seed; the long one runs with OFFERLOG_SOAK=1.
package chaos
