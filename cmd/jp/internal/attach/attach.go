// Package attach reads what a person adds to a request: files, folders and pages. It returns the
// bytes themselves, so that the request is the same when it is replayed, even if the file or the
// page has changed.
//
// A Reader reads for one request and bounds all of it. Nothing is cut: a file that is too large, or
// is not text, is an error with its name. From a folder, files that are not text are left out,
// images too, and Notice is called.
package attach

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"jp/convstore"
)

// Bounds of a request, in bytes.
const (
	MaxOne = 1 << 20 // one file, page or output
	MaxAll = 4 << 20 // all texts together

	MaxImage  = 7 << 19  // one image, 3.5 MiB: providers take 5 MB in base64
	MaxImages = 16 << 20 // all images together

	MaxFiles = 500 // number of files from one folder
)

// Reader reads the attachments of one request. Not safe for concurrent use.
type Reader struct {
	Dir       string       // folder of relative paths, absolute; "" = it does not exist any more
	Workspace string       // folder whose .gitignore files count for all folders in it
	Notice    func(string) // called with what was left out of a folder; never nil

	used   int // bytes of text so far
	images int // bytes of images so far
}

// Text returns an attachment with this text.
func (r *Reader) Text(source, text string) (convstore.Attachment, error) {
	return r.keep(source, "text/plain", []byte(text))
}

// Bytes returns an attachment with these bytes: text, or an image.
func (r *Reader) Bytes(source string, b []byte) (convstore.Attachment, error) {
	return r.keep(source, "text/plain", b)
}

// Image returns the media type of a picture, and reports whether b is one that models read.
func Image(b []byte) (mediaType string, ok bool) {
	mediaType = http.DetectContentType(b)
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return mediaType, true
	}
	return "", false
}

// picture returns an attachment with an image.
func (r *Reader) picture(source, mediaType string, b []byte) (convstore.Attachment, error) {
	switch {
	case len(b) > MaxImage:
		return convstore.Attachment{}, fmt.Errorf("%s: is an image larger than %d KiB", source, MaxImage>>10)
	case r.images+len(b) > MaxImages:
		return convstore.Attachment{}, fmt.Errorf("%s: with it the images are larger than %d MiB", source, MaxImages>>20)
	}
	r.images += len(b)
	return convstore.Attachment{Source: strings.ToValidUTF8(source, "\uFFFD"), MediaType: mediaType, Data: b}, nil
}

// keep returns an attachment with bytes, which must be text or an image.
func (r *Reader) keep(source, mediaType string, b []byte) (convstore.Attachment, error) {
	if kind, ok := Image(b); ok {
		return r.picture(source, kind, b)
	}
	switch {
	case len(b) > MaxOne:
		return convstore.Attachment{}, fmt.Errorf("%s: is larger than %d KiB", source, MaxOne>>10)
	case !isText(b):
		return convstore.Attachment{}, fmt.Errorf("%s: is neither UTF-8 text nor an image (PNG, JPEG, GIF, WebP)", source)
	case r.used+len(b) > MaxAll:
		return convstore.Attachment{}, fmt.Errorf("%s: with it the attachments are larger than %d MiB", source, MaxAll>>20)
	}
	r.used += len(b)
	return convstore.Attachment{Source: strings.ToValidUTF8(source, "\uFFFD"), MediaType: mediaType, Text: string(b)}, nil
}

func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }
