package console

import (
	"fmt"
	"io"
	"time"

	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

// Escaping escapes what could control a terminal; a parent or a program reads the same text.
type Escaping struct{ io.Writer }

func (w Escaping) Write(line []byte) (int, error) {
	if _, err := w.Writer.Write(term.EscapeJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Dollars writes a cost; "" when it is not known.
func Dollars(nano *int64) string {
	if nano == nil {
		return ""
	}
	b, err := stream.USD(*nano).MarshalJSON()
	if err != nil {
		return ""
	}
	return string(b)
}

// UsageText is the usage of a model for people.
func UsageText(u convstore.Usage) string {
	text := fmt.Sprintf("%s tokens in, %s out", term.Count(u.Input), term.Count(u.Output))
	if u.CacheRead+u.CacheWrite > 0 {
		text += fmt.Sprintf(", cache %s read, %s written", term.Count(u.CacheRead), term.Count(u.CacheWrite))
	}
	return text
}

// OrNil returns t for JSON, nil for the zero time.
func OrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Mebibytes writes a number of bytes for people.
func Mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// OfferCompact prints a note when much of the store's file is free.
func (c *Console) OfferCompact(s convstore.Space) {
	if s.Worth() {
		c.Note("%s of the store's %s are free: `jp store compact` gives them back", Mebibytes(s.Free), Mebibytes(s.Size))
	}
}

// MaxLostNotes bounds how many lost parts are named one by one.
const MaxLostNotes = 20
