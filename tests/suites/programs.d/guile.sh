# Guile: its collector, threads, compilation to bytecode, continuations, a child.
cat >queens.scm <<'S'
(use-modules (ice-9 threads) (ice-9 popen) (ice-9 rdelim) (srfi srfi-1))
(define (queens n)
  (let place ((row 0) (columns '()))
    (if (= row n) 1
        (apply + (map (lambda (c)
                        (if (every (lambda (other distance)
                                     (and (not (= c other)) (not (= (abs (- c other)) distance))))
                                   columns (iota (length columns) 1))
                            (place (+ row 1) (cons c columns)) 0))
                      (iota n))))))
(define kept (make-vector 2000 '()))
(define (churn seed)
  (do ((i 0 (+ i 1))) ((= i 20000) (length (vector-ref kept (modulo seed 2000))))
    (let ((at (modulo (+ seed (* i 7)) 2000)))
      (vector-set! kept at (list i (number->string i) (string-append "s" (number->string i)))))))
(display (queens 7)) (newline)
(display (par-map churn (iota 4))) (newline)
(display (every (lambda (l) (or (null? l) (string=? (cadr l) (substring (caddr l) 1)))) (vector->list kept))) (newline)
(display (call-with-current-continuation (lambda (k) (for-each (lambda (x) (if (> x 3) (k x))) (iota 9)) 0))) (newline)
(gc)
(display (read-line (open-input-pipe "echo child"))) (newline)
S
GUILE_AUTO_COMPILE=0 guile queens.scm
GC_ENABLE_INCREMENTAL=1 GUILE_AUTO_COMPILE=0 guile queens.scm
XDG_CACHE_HOME="$PWD" guile queens.scm 2>/dev/null
