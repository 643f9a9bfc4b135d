//go:build !race

package mapping

import (
	"fmt"
	"syscall"
)

// limitMemory bounds the address space of this process.
func limitMemory(bytes uint64) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: bytes, Max: bytes}); err != nil {
		return fmt.Errorf("limit the address space to %d bytes: %w", bytes, err)
	}
	return nil
}
