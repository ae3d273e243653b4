// Package attach reads what a person adds to a request: files, folders and pages. What it returns holds the bytes
// themselves, so that the request says the same when it is replayed, whatever became of the file or the page.
//
// A Reader reads for one request and bounds all of it. Nothing is cut: what is too large, or is no text, is an error that
// names it; only of a folder is what is no text left out, images too, and Notice told so.
package attach

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"jp/convstore"
)

// What a request may hold, in bytes.
const (
	MaxOne = 1 << 20 // of one file, page or output
	MaxAll = 4 << 20 // of all texts together

	MaxImage  = 7 << 19  // of one image, 3.5 MiB: providers take 5 MB in base64
	MaxImages = 16 << 20 // of all images together

	MaxFiles = 500 // in one folder
)

// Reader reads the attachments of one request. Not safe for concurrent use.
type Reader struct {
	Dir       string       // where relative paths start, absolute; "" = it is gone
	Workspace string       // whose .gitignore files count for the folders in it
	Notice    func(string) // told what of a folder was left out; never nil

	used   int // bytes of text
	images int // bytes of images
}

// Text is an attachment of text that is at hand.
func (r *Reader) Text(source, text string) (convstore.Attachment, error) {
	return r.keep(source, "text/plain", []byte(text))
}

// Bytes is an attachment of bytes that are at hand: text, or an image.
func (r *Reader) Bytes(source string, b []byte) (convstore.Attachment, error) {
	return r.keep(source, "text/plain", b)
}

// Image reports whether b is a picture that models read, and its media type.
func Image(b []byte) (mediaType string, ok bool) {
	mediaType = http.DetectContentType(b)
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return mediaType, true
	}
	return "", false
}

// picture makes an attachment of an image.
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

// keep makes an attachment of bytes that are text or an image.
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
