// Package running is the commands about what runs now: jp ps, jp stop and jp wait. They signal no
// process and read no process table. Run locks say what runs, and a run ends because the process
// that has it is asked to end it; see convstore.Store.Stop.
package running

import (
	"bufio"
	"fmt"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
)

// Group has what the commands share.
type Group struct {
	Con  *console.Console
	WS   *workspace.Workspace
	Tree *command.Tree
}

// ended is how the last run of a conversation ended.
type ended struct {
	ID     convstore.ID     `json:"id"`
	Status convstore.Status `json:"status"`
	Reason string           `json:"reason"`
}

// writeEnded writes a line for each conversation.
func (g *Group) writeEnded(list []ended) error {
	switch {
	case g.Con.JSON():
		return g.Con.Document(list)
	case g.Con.Pretty():
		t := term.Table{Columns: []term.Column{{Title: "id"}, {Title: "status"}, {Title: "reason", Flex: true, Drop: 1}}}
		for _, e := range list {
			t.Rows = append(t.Rows, []string{e.ID.String(), string(e.Status), e.Reason})
		}
		return g.Con.Text(func(w *bufio.Writer) error { return t.Write(w, g.Con.IO) })
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, e := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\n", e.ID, e.Status, term.Escape(e.Reason))
		}
		return nil
	})
}
