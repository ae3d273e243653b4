// Package suggest answers "did you mean?".
package suggest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Closest returns the candidate that word is most likely a misspelling of, "" when none is close.
// Close is at most one edit (insertion, deletion, substitution, swap of neighbours) for three runes
// of the word, at least one; letter case is ignored. Of equally close candidates the first in
// sorted order is taken.
func Closest(word string, candidates []string) string {
	const longest = 64 // a longer word is not a slip of the finger, and the distance is quadratic
	n := utf8.RuneCountInString(word)
	if n == 0 || n > longest {
		return ""
	}
	best, least := "", min(n, max(1, n/3)+1)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if m := utf8.RuneCountInString(c); m > longest || m-n >= least || n-m >= least {
			continue
		}
		if d := distance([]rune(strings.ToLower(word)), []rune(strings.ToLower(c))); d < least {
			best, least = c, d
		}
	}
	return best
}

// Meant puts the closest candidate into format, such as "did you mean %s?"; "" when none is close.
func Meant(format, word string, candidates []string) string {
	near := Closest(word, candidates)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(format, near)
}

// distance is the optimal string alignment distance.
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
