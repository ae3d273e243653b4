package workspace

import (
	"crypto/sha256"
	"encoding/hex"

	"jp/cmd/jp/internal/exit"
)

// Session names the owner of the active conversation: $JP_SESSION, else the controlling terminal;
// "" without either.
func (w *Workspace) Session() string {
	if s := w.Con.Getenv("JP_SESSION"); s != "" {
		if len(s) > 200 {
			sum := sha256.Sum256([]byte(s))
			s = "sha256:" + hex.EncodeToString(sum[:])
		}
		return "env:" + s
	}
	return terminalSession()
}

// ErrNoTerminal is the error of --activate where there is no terminal.
func ErrNoTerminal() error {
	return exit.Usagef("--activate: this process has no terminal").
		WithHint("set JP_SESSION to a name of your choice")
}
