//go:build !faults

package fault

// Point marks a place where the process may be killed.
func Point(string) {}

// Err marks a place where the process may be killed, or where something may fail.
func Err(string) error { return nil }
