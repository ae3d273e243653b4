// Package turns chooses turns of a conversation, and prints them for people.
package cli

import (
	"strconv"
	"strings"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
)

// rangeFlags choose turns by counting.
type rangeFlags struct {
	first, last command.Maybe[int]
	turn        command.Maybe[string]
}

// lastFirst are --last and --first.
func (f *rangeFlags) lastFirst() []*command.Option {
	return []*command.Option{
		command.IntMaybe(&f.last, "last", "N", 0, 1, "the last N turns (1 without N)"),
		command.IntMaybe(&f.first, "first", "N", 0, 1, "the first N turns (1 without N)"),
	}
}

// turns returns the range that was chosen; all turns when none was.
func (f *rangeFlags) turns() (convstore.Range, error) {
	given := map[string]bool{"--last": f.last.Set, "--first": f.first.Set, "--turn": f.turn.Set}
	if err := command.OnlyOne(given, "--last", "--first", "--turn"); err != nil {
		return convstore.Range{}, err
	}
	switch {
	case f.last.Set:
		return convstore.LastTurns(f.last.Value), nil
	case f.first.Set:
		return convstore.FirstTurns(f.first.Value), nil
	case f.turn.Set:
		return parseTurns(f.turn.Value)
	}
	return convstore.Range{}, nil
}

// parseTurns reads N, A..B, A.. and ..B, counted from 1, and .. for all.
func parseTurns(s string) (convstore.Range, error) {
	bad := exit.Usagef("--turn: %q is none of N, A..B, A.. and ..B, counted from 1", s)
	parse := func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n > 0 && !strings.HasPrefix(s, "+")
	}
	from, to, isRange := strings.Cut(s, "..")
	if !isRange {
		n, ok := parse(s)
		if !ok {
			return convstore.Range{}, bad
		}
		return convstore.Turn(n), nil
	}
	var r convstore.Range
	var ok bool
	if from != "" {
		if r.First, ok = parse(from); !ok {
			return convstore.Range{}, bad
		}
	}
	if to != "" {
		if r.Last, ok = parse(to); !ok {
			return convstore.Range{}, bad
		}
	}
	if r.Last != 0 && r.First > r.Last {
		return convstore.Range{}, bad
	}
	return r, nil
}
