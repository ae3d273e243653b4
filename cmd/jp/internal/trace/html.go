package trace

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"jp/cmd/jp/internal/term"
)

// The page and its parts. All text of a trace is data: the trace is JSON in an element that is not
// a script, and page.js puts it on the page only as text. Its policy lets nothing load and nothing
// run but these two, named by their hashes.
var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// HTML writes the trace as one page that needs no network. It is light or dark, and works with
// mouse and keyboard.
func (t *Trace) HTML(w io.Writer) error {
	var data bytes.Buffer
	if err := json.NewEncoder(&data).Encode(t); err != nil { // escapes <, > and &: nothing in it ends the element
		return fmt.Errorf("trace: %w", err)
	}
	page := strings.NewReplacer(
		"@title@", html.EscapeString(term.Line(strings.TrimSpace(t.ID.String()+" "+t.Title))),
		"@style-hash@", hash(pageCSS), "@script-hash@", hash(pageJS),
		"@style@", pageCSS, "@script@", pageJS, "@trace@", string(term.EscapeJSON(data.Bytes())),
	)
	_, err := page.WriteString(w, pageHTML)
	return err
}

// hash names a text in a content security policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
