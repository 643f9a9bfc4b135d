//go:build !race

package mapping

func canLimitMemory() error { return nil }
