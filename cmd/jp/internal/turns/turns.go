// Package turns chooses turns of a conversation, and prints them for people.
package turns

import (
	"strconv"
	"strings"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
)

// Flags choose turns by counting.
type Flags struct {
	First, Last command.Maybe[int]
	Turn        command.Maybe[string]
}

// LastFirst returns the flags --last and --first.
func (f *Flags) LastFirst() []*command.Option {
	return []*command.Option{
		command.IntMaybe(&f.Last, "last", "N", 0, 1, "the last N turns (default 1)"),
		command.IntMaybe(&f.First, "first", "N", 0, 1, "the first N turns (default 1)"),
	}
}

// Turns returns the chosen range; all turns when no flag chose any.
func (f *Flags) Turns() (convstore.Range, error) {
	given := map[string]bool{"--last": f.Last.Set, "--first": f.First.Set, "--turn": f.Turn.Set}
	if err := command.OnlyOne(given, "--last", "--first", "--turn"); err != nil {
		return convstore.Range{}, err
	}
	switch {
	case f.Last.Set:
		return convstore.LastTurns(f.Last.Value), nil
	case f.First.Set:
		return convstore.FirstTurns(f.First.Value), nil
	case f.Turn.Set:
		return parseTurns(f.Turn.Value)
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
