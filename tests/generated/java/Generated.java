package javax.annotation;

/** Marks generated sources. It was in the JDK until Java 10; the generated client still refers to it. */
public @interface Generated {
    String[] value();

    String date() default "";

    String comments() default "";
}
