package feed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A Problem is one thing in a feed that cannot stand.
type Problem struct {
	File    string // "" where the feed came as JSON
	Line    int    // from 1; 0 where the feed came as JSON
	Column  int    // in characters, from 1
	Setting string // accepts.topics.0; "" for the feed as a whole
	Message string // what is wrong, and what is allowed

	name         bool // the place is the setting's name
	within       bool // line and column stand within the setting's text
	line, column int
}

// String is file:line:column: setting: message.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	}
	if p.Setting != "" {
		b.WriteString(p.Setting)
		if p.File == "" && p.within {
			fmt.Fprintf(&b, ", line %d, column %d", p.line, p.column)
		}
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// An InvalidError holds every problem of a feed, in the order of the file.
type InvalidError struct{ Problems []Problem }

// Code is the name of the fault where the feed came as a command.
func (e *InvalidError) Code() string { return offer.ReasonSchemaInvalid }

// Error has one line for each problem.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

type problemList []Problem

// merge adds what a later look found, but for settings at which, or around which, an earlier one had found something: one
// mistake is told once.
func (l *problemList) merge(later problemList) {
	told := map[string]bool{}
	for _, p := range *l {
		told[p.Setting] = true
	}
	for _, p := range later {
		if !toldAround(told, p.Setting) {
			*l = append(*l, p)
		}
	}
}

func toldAround(told map[string]bool, setting string) bool {
	for ; setting != ""; setting = setting[:max(strings.LastIndexByte(setting, '.'), 0)] {
		if told[setting] {
			return true
		}
	}
	return told[""]
}

// err is an *InvalidError, or nil where there is no problem.
func (l problemList) err() error {
	if len(l) == 0 {
		return nil
	}
	slices.SortStableFunc(l, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Setting, b.Setting))
	})
	return &InvalidError{l}
}
