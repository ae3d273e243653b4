package editor

import (
	"context"
	"net/url"
	"path/filepath"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// replay sends an editor the messages and calls of a conversation, in order.
func replay(ctx context.Context, own *run.Env, c *run.Stored, tell func(acp.Update)) error {
	var event string
	say := func(kind acp.ChunkKind, text string) {
		if text != "" {
			tell(acp.Chunk{Kind: kind, Content: acp.Text(text), Message: messageID(event, kind)})
		}
	}
	open := map[string]bool{}
	end := func() {
		for id := range open {
			tell(acp.ToolCall{Kind: acp.Change, ID: id, Status: acp.Failed})
		}
		clear(open)
	}
	for ev, err := range c.Store.Events(ctx, c.Conv.ID, convstore.Range{}) {
		if err != nil {
			return err
		}
		event = ev.ID
		switch b := ev.Body.(type) {
		case convstore.UserMessage:
			end()
			say(acp.ByUser, b.Text)
			for _, a := range b.Attachments {
				tell(acp.Chunk{Kind: acp.ByUser, Content: attached(own.Con.Env.Dir, a), Message: ev.ID})
			}
		case convstore.Said:
			say(acp.ByAgent, b.Said())
		case convstore.Reasoning:
			say(acp.InThought, b.Text)
		case convstore.ToolCall:
			open[b.ID] = true
			tell(callShown(c.Root, b))
		case convstore.ToolResult:
			delete(open, b.ID)
			tell(answered(b))
		case convstore.Note:
			say(acp.InThought, "jp: "+b.Text+"\n")
		case convstore.Compaction:
			tell(compacted(ev.ID, b))
		case convstore.TurnEnd:
			end()
			if b.State != convstore.StateOK {
				say(acp.InThought, "jp: the turn ended: "+string(b.State)+wording.Either(b.Reason == "", "", ": "+b.Reason)+"\n")
			}
		}
	}
	end()
	return nil
}

// attached returns an attachment in the form in which an editor sends one.
func attached(dir string, a convstore.Attachment) acp.Block {
	uri := a.Source
	if !attach.IsURL(uri) {
		path := uri
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		uri = (&url.URL{Scheme: "file", Path: path}).String()
	}
	if len(a.Data) > 0 {
		return acp.Block{Type: acp.TypeImage, Data: a.Data, MIMEType: a.MediaType, URI: uri}
	}
	return acp.Block{Type: acp.TypeResource, Resource: &acp.Resource{URI: uri, MIMEType: a.MediaType, Text: &a.Text}}
}
