//go:build race

package mapping

import (
	"fmt"
	"os"
)

// limitMemory cannot do it here: the race detector reserves more address space than any useful limit.
func limitMemory(uint64) error {
	fmt.Fprintln(os.Stderr, noticePrefix+"a race build runs without a limit of its address space")
	return nil
}
