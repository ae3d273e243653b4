package editor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// prompted is what an editor's prompt asks. Where something is mentioned the text names it; what it
// holds is attached: a file, a page, what the editor sent of it. A folder, and an address that only
// the editor can read, is only named.
func prompted(ctx context.Context, con *console.Console, root string, prompt []acp.Block) (run.Task, error) {
	p := prompting{r: attach.Reader{Dir: con.Env.Dir, Workspace: root, Notice: func(s string) { con.Warn("%s", s) }}}
	for i, b := range prompt {
		if err := p.add(ctx, b); err != nil {
			var known *attach.FetchError
			if errors.As(err, &known) || ctx.Err() != nil {
				return run.Task{}, err
			}
			return run.Task{}, acp.Paramsf("prompt[%d]: %v", i, err)
		}
	}
	text, err := run.Clean(p.text.String())
	switch {
	case err != nil:
		return run.Task{}, acp.Paramsf("%v", err)
	case strings.TrimSpace(text) == "":
		return run.Task{}, acp.Paramsf("prompt: is empty")
	}
	return run.Task{Text: text, Title: p.title.String(), Attachments: p.attachments}, nil
}

// prompting puts a prompt together.
type prompting struct {
	r           attach.Reader
	text, title strings.Builder
	last        string // type of the block before
	images      int
	attachments []convstore.Attachment
}

func (p *prompting) add(ctx context.Context, b acp.Block) error {
	defer func() { p.last = b.Type }()
	switch b.Type {
	case acp.TypeText:
		if p.last == acp.TypeText { // not the rest of a line with something mentioned in it
			p.put("\n", "\n")
		}
		p.put(b.Text, b.Text)
		return nil
	case acp.TypeImage:
		p.images++
		source := cmp.Or(b.URI, fmt.Sprintf("image %d", p.images))
		p.mention(source, "")
		if _, ok := attach.Image(b.Data); !ok {
			return fmt.Errorf("%s: is no image (PNG, JPEG, GIF, WebP)", source)
		}
		return p.attach(p.r.Bytes(source, b.Data))
	case acp.TypeLink:
		p.mention(cmp.Or(b.Name, b.URI), b.URI)
		return p.link(ctx, b.URI)
	case acp.TypeResource:
		r := b.Resource
		if r == nil || r.URI == "" {
			return errors.New("resource: has no content or no uri")
		}
		p.mention(name(r.URI), r.URI)
		if r.Text != nil {
			return p.attach(p.r.Text(source(r.URI), *r.Text))
		}
		return p.attach(p.r.Bytes(source(r.URI), r.Blob))
	case acp.TypeAudio:
		return errors.New("audio is not taken")
	}
	return fmt.Errorf("a block of type %q is not known", b.Type)
}

// mention names in the text what stands there; the title has the name alone.
func (p *prompting) mention(name, uri string) {
	p.put("["+name+"]"+wording.Either(uri == "", "", "("+uri+")"), name)
}

func (p *prompting) put(text, title string) {
	p.text.WriteString(text)
	p.title.WriteString(title)
}

func (p *prompting) attach(a convstore.Attachment, err error) error {
	if err != nil {
		return err
	}
	p.attachments = append(p.attachments, a)
	return nil
}

// link attaches what an address leads to.
func (p *prompting) link(ctx context.Context, uri string) error {
	u, err := url.Parse(uri)
	if err != nil || uri == "" {
		return fmt.Errorf("%q: is no address", uri)
	}
	switch u.Scheme {
	case "http", "https":
		return p.attach(p.r.URL(ctx, uri))
	case "file":
		path, err := filePath(u)
		if err != nil {
			return err
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil // its name is in the text
		}
		return p.attach(p.r.File(path))
	}
	return nil
}

// filePath is the file that an address names; a part of it is left to the text.
func filePath(u *url.URL) (string, error) {
	switch {
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("%s: is on another machine", u)
	case !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0):
		return "", fmt.Errorf("%s: names no absolute path", u)
	}
	return filepath.Clean(u.Path), nil
}

// source is an address as an attachment's source says it: a file by its path.
func source(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Scheme == "file" {
		if path, err := filePath(u); err == nil {
			return path + wording.Either(u.Fragment == "", "", "#"+u.Fragment)
		}
	}
	return uri
}

// name is the last part of an address.
func name(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Path != "" {
		return filepath.Base(u.Path)
	}
	return uri
}
