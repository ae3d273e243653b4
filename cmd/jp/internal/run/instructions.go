package run

import (
	"context"
	"strings"
	"unicode/utf8"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/trust"
	"jp/tools/brief"
)

// maxInstructions bounds what project instructions add to every request, in bytes.
const maxInstructions = 64 << 10

// instructions returns the trusted project instructions for the prompt of this run. A sub-agent
// gets none, whatever its config says.
func (ag *Agent) instructions(ctx context.Context) ([]model.Section, error) {
	name := ag.run.Resolved.Config.Assistant.Instructions
	if name == "" || !ag.talksAsMain() {
		return nil, nil
	}
	files, err := ag.run.env.WS.Gate.Pass(ctx)
	if err != nil {
		return nil, err
	}
	data, ok := files.Data[name]
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	switch {
	case !ok:
		ag.run.env.Con.Warn("%s: left out of the prompt: not a file of at most %d MiB in the workspace's folder", name, trust.MaxContributedKept>>20)
		return nil, nil
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		ag.run.env.Con.Warn("%s: left out of the prompt: not UTF-8 text", name)
		return nil, nil
	case text == "":
		return nil, nil
	case len(text) > maxInstructions:
		cut := strings.LastIndexByte(text[:maxInstructions], '\n')
		if cut < 0 {
			cut = len(brief.Prefix(text, maxInstructions))
		}
		text = text[:cut] + "\n[cut off here]"
		ag.run.env.Con.Warn("%s: only the first %d KiB are in the prompt", name, maxInstructions>>10)
	}
	return []model.Section{{Text: "# Project instructions (" + name + ")\n\n" + text}}, nil
}
