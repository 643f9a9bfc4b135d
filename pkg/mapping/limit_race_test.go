//go:build race

package mapping

import "errors"

func canLimitMemory() error {
	return errors.New("a race build runs without a limit of its address space: the race detector reserves more than any useful one")
}
