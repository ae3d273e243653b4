package regex

// Each is All as it goes where the text is long or its matches may be many.
var Each = (*Regexp).each
