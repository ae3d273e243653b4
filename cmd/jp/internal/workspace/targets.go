package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// Target finds one conversation by what a user calls it: an id, ., active, recent, newest or
// previous, the last digits of an id, a title or a part of one. It does not check that an id
// exists. Inside a tool only an id is allowed.
func (w *Workspace) Target(ctx context.Context, word string) (convstore.ID, error) {
	word = strings.TrimSpace(word) // a blank is in many titles
	if word == "-" {
		return 0, exit.Usagef("-: no id is read from stdin here").WithHint("give the id itself")
	}
	id, err := w.Exactly(ctx, word)
	if none := (*convstore.NotFoundError)(nil); w.Within != nil || word == "" || !utf8.ValidString(word) || !errors.As(err, &none) {
		return id, err
	}
	st, openErr := w.Store(ctx)
	if openErr != nil {
		return 0, openErr
	}
	heads, listErr := st.Heads(ctx, convstore.Filter{}, nil)
	if listErr != nil {
		return 0, listErr
	}
	all, listErr := st.Heads(ctx, convstore.Filter{Hidden: true, Archived: true}, nil)
	if listErr != nil {
		return 0, listErr
	}
	found := titled(heads, word)
	if len(found) == 0 {
		found = titled(all, word)
	}
	for _, h := range ending(all, word) {
		if !slices.ContainsFunc(found, func(other convstore.Head) bool { return other.ID == h.ID }) {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return 0, err
	case 1:
		w.Con.Note("%q is %s", word, candidate(found[0]))
		return found[0].ID, nil
	}
	const most = 5
	slices.SortFunc(found, func(a, b convstore.Head) int { return b.Updated.Compare(a.Updated) })
	var names []string
	for _, h := range found[:min(len(found), most)] {
		names = append(names, candidate(h))
	}
	if more := len(found) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return 0, exit.Usagef("conversation %q: may be %s", word, strings.Join(names, ", ")).WithHint("give an id, or more of the title")
}

// lastDigits is the least number of digits that can name an id by its end.
const lastDigits = 3

// ending returns the conversations whose id ends with these digits.
func ending(heads []convstore.Head, word string) (found []convstore.Head) {
	if _, err := strconv.ParseUint(word, 10, 64); err != nil || len(word) < lastDigits {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(heads), func(h convstore.Head) bool { return !strings.HasSuffix(h.ID.String(), word) })
}

// titled returns the conversations with this title, else those with a title that contains it. Upper
// and lower case are the same.
func titled(heads []convstore.Head, word string) (found []convstore.Head) {
	word = strings.ToLower(word)
	for _, fits := range []func(title string) bool{
		func(title string) bool { return title == word },
		func(title string) bool { return strings.Contains(title, word) },
	} {
		found = slices.DeleteFunc(slices.Clone(heads), func(h convstore.Head) bool { return !fits(strings.ToLower(h.Title)) })
		if len(found) > 0 {
			break
		}
	}
	return found
}

// candidate is a conversation in a message.
func candidate(h convstore.Head) string { return fmt.Sprintf("%s %q", h.ID, h.Title) }

// Exactly is Target without digits and titles, for words that a program has written: one of them
// must not be taken for the title of a conversation.
func (w *Workspace) Exactly(ctx context.Context, word string) (convstore.ID, error) {
	if w.Within != nil {
		return convstore.ParseID(word)
	}
	st, err := w.Store(ctx)
	if err != nil {
		return 0, err
	}
	switch word {
	case ".", "active", "previous":
		session := w.Session()
		if session == "" {
			return 0, exit.NotFoundf("conversation %q: this process has no terminal", word).
				WithHint("give an id, or set JP_SESSION")
		}
		active, previous, err := st.Active(ctx, session)
		if err != nil {
			return 0, err
		}
		id := wording.Either(word == "previous", previous, active)
		if id == 0 {
			return 0, exit.NotFoundf("conversation %q: this terminal has none", word).
				WithHint("`jp conversation ls` lists all; `jp query` makes one and activates it")
		}
		return id, nil
	case "recent", "newest":
		f := convstore.Filter{Sort: convstore.SortActivity, Descending: true, Limit: 1}
		if word == "newest" {
			f.Sort = convstore.SortCreated
		}
		cs, err := st.List(ctx, f)
		if err != nil {
			return 0, err
		}
		if len(cs) == 0 {
			return 0, exit.NotFoundf("conversation %q: there is none yet", word)
		}
		return cs[0].ID, nil
	}
	return convstore.ParseID(word)
}

// IsTarget reports whether a word names a conversation, existing or not.
func IsTarget(word string) bool {
	switch word {
	case ".", "active", "previous", "recent", "newest":
		return true
	}
	_, err := convstore.ParseID(word)
	return err == nil
}

// OrActive returns the targets of a command that only reads: without any, the active conversation.
func OrActive(words []string) []string {
	if len(words) == 0 {
		return []string{"active"}
	}
	return words
}

// OneTarget is Target for a command that takes one conversation and does not read stdin otherwise:
// - is the one id on it.
func (w *Workspace) OneTarget(ctx context.Context, word string) (convstore.ID, error) {
	if word != "-" {
		return w.Target(ctx, word)
	}
	ids, err := w.Targets(ctx, []string{word})
	switch {
	case err != nil:
		return 0, err
	case len(ids) != 1:
		return 0, exit.Usagef("-: %s on stdin, but this command takes one", wording.Plural(len(ids), "id"))
	}
	return ids[0], nil
}

// firstFields splits as bufio.ScanWords does, and leaves out what follows a tab in its line: `jp c
// ls` prints the id first.
func firstFields() bufio.SplitFunc {
	rest := false
	return func(data []byte, atEOF bool) (int, []byte, error) {
		from := 0
		if rest {
			end := bytes.IndexByte(data, '\n')
			if end < 0 {
				return len(data), nil, nil
			}
			from = end + 1
		}
		n, word, err := bufio.ScanWords(data[from:], atEOF)
		rest = word != nil && data[from+n-1] == '\t'
		return from + n, word, err
	}
}

// Targets finds several conversations. - means the ids on stdin, one per line or separated by
// spaces, of a line with tabs the first; an empty stdin is no error. Each id counts once.
func (w *Workspace) Targets(ctx context.Context, words []string) ([]convstore.ID, error) {
	var ids []convstore.ID
	seen := map[convstore.ID]bool{}
	add := func(word string, find func(context.Context, string) (convstore.ID, error)) error {
		id, err := find(ctx, word)
		if err == nil && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
		return err
	}
	for _, word := range words {
		if word != "-" {
			if err := add(word, w.Target); err != nil {
				return nil, err
			}
			continue
		}
		stdin := bufio.NewScanner(w.Con.IO.In)
		stdin.Split(firstFields())
		for read := make(chan bool, 1); ; {
			go func() { read <- stdin.Scan() }() // a pipe that nobody writes to outlasts no deadline
			more := false
			select {
			case more = <-read:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if !more {
				break
			}
			if err := add(stdin.Text(), w.Exactly); err != nil {
				return nil, err
			}
		}
		if errors.Is(stdin.Err(), bufio.ErrTooLong) {
			return nil, exit.Usagef("-: a word on stdin is not an id: it has more than %d bytes", bufio.MaxScanTokenSize)
		}
		if err := InputError(stdin.Err()); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// InputError is the error for a failed read of stdin; its end is no failure.
func InputError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return &exit.Error{Code: "failed", Status: exit.Failed, Msg: "stdin: " + err.Error(), Err: err}
}

// Below returns the view of a --root or --root-id: the strict descendants of the conversation that
// word names, by all links.
func (w *Workspace) Below(ctx context.Context, word string) (convstore.View, error) {
	id, err := w.Target(ctx, word)
	if err != nil {
		return convstore.View{}, err
	}
	view, err := w.View(ctx)
	if err != nil || w.Within != nil && id == w.Within.Caller() {
		return view, err
	}
	return view.Under(ctx, id)
}

// View returns all conversations that the command may see: those of the store, or inside a tool
// those below its caller.
func (w *Workspace) View(ctx context.Context) (convstore.View, error) {
	if w.Within != nil {
		return w.Within.View, nil
	}
	st, err := w.Store(ctx)
	if err != nil {
		return convstore.View{}, err
	}
	return st.View, nil
}
